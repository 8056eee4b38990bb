// BYTE_ARRAY values in PLAIN, and the dictionary indices that stand for values.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastload/base/status.h"
#include "fastload/decode/pages/hybrid.h"
#include "parquet/schema.h"
#include "parquet/types.h"

namespace fastload {

// A page that has `left` values for `n` wanted, if those are more.
Status CheckValuesLeft(int64_t n, int64_t left);

// A length or a value that goes beyond the `left` bytes of its page.
Status BeyondPage(int64_t left, int64_t needed);

// Calls take(i, data, length) for n BYTE_ARRAYs from *pos on, and moves *pos behind them.
template <typename Take>
Status WalkPlainBytes(int64_t n, const uint8_t** pos, const uint8_t* end, Take&& take) {
  constexpr int64_t kPrefix = 4;
  const uint8_t* at = *pos;
  for (int64_t i = 0; i < n; ++i) {
    if (end - at < kPrefix) return BeyondPage(end - at, kPrefix);
    uint32_t length;
    std::memcpy(&length, at, kPrefix);
    at += kPrefix;
    if (length > end - at) return BeyondPage(end - at, length);
    take(i, at, length);
    at += length;
  }
  *pos = at;
  return Status::OK();
}

Status SkipPlainBytes(int64_t n, const uint8_t** pos, const uint8_t* end);

// The values of a PLAIN page of BYTE_ARRAY or FIXED_LEN_BYTE_ARRAY, one after the other.
class PlainBytes {
 public:
  explicit PlainBytes(const parquet::ColumnDescriptor& descr);

  // `size` borrowed bytes.
  void Reset(const uint8_t* data, int64_t size);

  // Views of the next n values.
  Status Next(int64_t n, parquet::ByteArray* out);
  Status Skip(int64_t n);

  // Fewer than n values of the least length left is an ErrorKind::kCorruptFile.
  Status CheckLeft(int64_t n) const;

 private:
  int64_t fixed_size_;  // bytes of a FIXED_LEN_BYTE_ARRAY, else -1
  const uint8_t* pos_ = nullptr;
  const uint8_t* end_ = nullptr;
};

// Sets `indices` to the dictionary indices of a page, which a byte of bit width precedes.
Status ResetIndices(const uint8_t* data, int64_t size, HybridDecoder* indices);

}  // namespace fastload
