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

// A walk over the values of a PLAIN page of BYTE_ARRAY or FIXED_LEN_BYTE_ARRAY.
class PlainBytes {
 public:
  explicit PlainBytes(const parquet::ColumnDescriptor& descr);

  // Starts at `size` borrowed bytes.
  void Reset(const uint8_t* data, int64_t size);

  // Calls take(i, data, length) for the next n values.
  template <typename Take>
  Status Walk(int64_t n, Take&& take) {
    return fixed_size_ < 0 ? WalkVariable(n, take) : WalkFixed(n, take);
  }

  // Writes views of the next n values.
  Status Next(int64_t n, parquet::ByteArray* out);
  Status Skip(int64_t n);

  // Returns ErrorKind::kCorruptFile if the rest of the page is too short for n values of
  // the least length.
  Status CheckLeft(int64_t n) const;

  // Returns the address of the next value.
  const uint8_t* position() const { return pos_; }

 private:
  static constexpr int64_t kPrefix = 4;  // bytes of the length of a BYTE_ARRAY

  template <typename Take>
  Status WalkVariable(int64_t n, Take& take) {
    const uint8_t* at = pos_;
    for (int64_t i = 0; i < n; ++i) {
      if (end_ - at < kPrefix) return BeyondPage(end_ - at, kPrefix);
      uint32_t length;
      std::memcpy(&length, at, kPrefix);
      at += kPrefix;
      if (length > end_ - at) return BeyondPage(end_ - at, length);
      take(i, at, length);
      at += length;
    }
    pos_ = at;
    return Status::OK();
  }

  template <typename Take>
  Status WalkFixed(int64_t n, Take& take) {
    ARROW_RETURN_NOT_OK(CheckLeft(n));
    const uint8_t* at = pos_;
    for (int64_t i = 0; i < n; ++i) {
      take(i, at, static_cast<uint32_t>(fixed_size_));
      at += fixed_size_;
    }
    pos_ = at;
    return Status::OK();
  }

  int64_t fixed_size_;  // bytes of a FIXED_LEN_BYTE_ARRAY, at least 1; else -1
  const uint8_t* pos_ = nullptr;
  const uint8_t* end_ = nullptr;
};

// Sets `indices` to the dictionary indices of a page, whose first byte is the bit width.
Status ResetIndices(const uint8_t* data, int64_t size, HybridDecoder* indices);

}  // namespace fastload
