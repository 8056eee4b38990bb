#include "fastload/decode/values/plain_bytes.h"

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

PlainBytes::PlainBytes(const parquet::ColumnDescriptor& descr)
    : fixed_size_(descr.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY
                      ? descr.type_length()
                      : -1) {}

void PlainBytes::Reset(const uint8_t* data, int64_t size) {
  pos_ = data;
  end_ = data + size;
}

Status PlainBytes::CheckLeft(int64_t n) const {
  return CheckValuesLeft(n, (end_ - pos_) / (fixed_size_ < 0 ? kPrefix : fixed_size_));
}

Status PlainBytes::Next(int64_t n, parquet::ByteArray* out) {
  return Walk(n, [out](int64_t i, const uint8_t* data, uint32_t length) {
    out[i] = parquet::ByteArray(length, data);
  });
}

Status PlainBytes::Skip(int64_t n) {
  if (fixed_size_ < 0) return Walk(n, [](int64_t, const uint8_t*, uint32_t) {});
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
