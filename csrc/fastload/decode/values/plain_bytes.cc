#include "fastload/decode/values/plain_bytes.h"

#include <algorithm>
#include <string>

namespace fastload {

Status CheckValuesLeft(int64_t n, int64_t left) {
  if (n <= left) return Status::OK();
  return MakeError(ErrorKind::kCorruptFile, "Expected " + std::to_string(n) +
                                                " more values in the page, got " +
                                                std::to_string(left));
}

Status BeyondPage(int64_t left, int64_t needed) {
  return MakeError(ErrorKind::kCorruptFile, "Expected at most " + std::to_string(left) +
                                                " bytes to the end of the page, got " +
                                                std::to_string(needed));
}

Status SkipPlainBytes(int64_t n, const uint8_t** pos, const uint8_t* end) {
  return WalkPlainBytes(n, pos, end, [](int64_t, const uint8_t*, uint32_t) {});
}

PlainBytes::PlainBytes(const parquet::ColumnDescriptor& descr)
    : fixed_size_(descr.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY
                      ? descr.type_length()
                      : -1) {}

void PlainBytes::Reset(const uint8_t* data, int64_t size) {
  pos_ = data;
  end_ = data + size;
}

Status PlainBytes::CheckLeft(int64_t n) const {
  // A value of variable length takes at least the four bytes of its length.
  const int64_t least = fixed_size_ < 0 ? 4 : std::max<int64_t>(fixed_size_, 1);
  return CheckValuesLeft(n, (end_ - pos_) / least);
}

Status PlainBytes::Next(int64_t n, parquet::ByteArray* out) {
  if (fixed_size_ < 0) {
    return WalkPlainBytes(n, &pos_, end_,
                          [out](int64_t i, const uint8_t* data, uint32_t length) {
                            out[i] = parquet::ByteArray(length, data);
                          });
  }
  ARROW_RETURN_NOT_OK(CheckLeft(n));
  for (int64_t i = 0; i < n; ++i) {
    out[i] = parquet::ByteArray(static_cast<uint32_t>(fixed_size_), pos_);
    pos_ += fixed_size_;
  }
  return Status::OK();
}

Status PlainBytes::Skip(int64_t n) {
  if (fixed_size_ < 0) return SkipPlainBytes(n, &pos_, end_);
  ARROW_RETURN_NOT_OK(CheckLeft(n));
  pos_ += n * fixed_size_;
  return Status::OK();
}

Status ResetIndices(const uint8_t* data, int64_t size, HybridDecoder* indices) {
  if (size == 0) {  // a page of nulls may have no bytes at all
    indices->Reset(data, 0, 0);
    return Status::OK();
  }
  const int bit_width = data[0];
  if (bit_width > 32) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected dictionary indices of at most 32 bits, got " +
                         std::to_string(bit_width));
  }
  indices->Reset(data + 1, size - 1, bit_width);
  return Status::OK();
}

}  // namespace fastload
