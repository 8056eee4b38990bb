#include "fastload/plain_bytes.h"

#include <string>

namespace fastload {

Status BeyondPage(int64_t left, int64_t needed) {
  return MakeError(ErrorKind::kCorruptFile, "Expected at most " + std::to_string(left) +
                                                " bytes to the end of the page, got " +
                                                std::to_string(needed));
}

Status NextPlainBytes(int64_t n, const uint8_t** pos, const uint8_t* end,
                      parquet::ByteArray* out) {
  return WalkPlainBytes(n, pos, end,
                        [out](int64_t i, const uint8_t* data, uint32_t length) {
                          out[i] = parquet::ByteArray(length, data);
                        });
}

Status SkipPlainBytes(int64_t n, const uint8_t** pos, const uint8_t* end) {
  return WalkPlainBytes(n, pos, end, [](int64_t, const uint8_t*, uint32_t) {});
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
