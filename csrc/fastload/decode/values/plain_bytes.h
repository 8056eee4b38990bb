// BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY values in PLAIN, dictionary indices, and the errors
// of pages that are too short.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastload/base/status.h"
#include "fastload/decode/pages/hybrid.h"
#include "parquet/schema.h"
#include "parquet/types.h"

namespace fastload {

// Returns an error if the page has fewer (`left`) values than the `n` values that are
// wanted.
Status CheckValuesLeft(int64_t n, int64_t left);

// Returns the error of a length or a value that exceeds the `left` bytes of its page.
Status BeyondPage(int64_t left, int64_t needed);

// Calls take(i, data, length) for n BYTE_ARRAYs from *pos on, and moves *pos behind the
// last BYTE_ARRAY.
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

// A walk over the values of a PLAIN page of BYTE_ARRAY or FIXED_LEN_BYTE_ARRAY.
class PlainBytes {
 public:
  explicit PlainBytes(const parquet::ColumnDescriptor& descr);

  // Starts at `size` borrowed bytes.
  void Reset(const uint8_t* data, int64_t size);

  // Writes views of the next n values.
  Status Next(int64_t n, parquet::ByteArray* out);
  Status Skip(int64_t n);

  // Returns ErrorKind::kCorruptFile if the rest of the page is too short for n values of
  // the least length.
  Status CheckLeft(int64_t n) const;

 private:
  int64_t fixed_size_;  // bytes of a FIXED_LEN_BYTE_ARRAY, else -1
  const uint8_t* pos_ = nullptr;
  const uint8_t* end_ = nullptr;
};

// Sets `indices` to the dictionary indices of a page, whose first byte is the bit width.
Status ResetIndices(const uint8_t* data, int64_t size, HybridDecoder* indices);

}  // namespace fastload
