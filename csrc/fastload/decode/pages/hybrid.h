// Decoder of Parquet's RLE / bit-packed hybrid: levels, dictionary indices, booleans.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "fastload/base/prefetch.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/bit_unpack.h"

namespace fastload {

// Borrows its bytes, and never reads outside them. An error leaves the decoder unusable
// until the next Reset.
class HybridDecoder {
 public:
  // Values unpacked at once; they stay in the L1 cache until looked up.
  static constexpr int64_t kBlockValues = 512;

  // `bit_width` is 0 to 32. A run of equal values, each stored in whole bytes, may be of
  // a larger one than the bits hold: one of more than `most` is an
  // ErrorKind::kCorruptFile.
  void Reset(const uint8_t* data, int64_t size, int bit_width,
             uint32_t most = UINT32_MAX);

  // What comes next: `length` equal values, or, when `repeated` is false, `length`
  // bit-packed ones. Length 0 means that the data are at their end.
  struct Run {
    bool repeated = false;
    uint32_t value = 0;
    int64_t length = 0;
  };
  Result<Run> Peek();

  Status Skip(int64_t n);
  Status Decode(int64_t n, uint32_t* out);

  // Decodes n values of bit width 1 to bytes, 0 or 1. What damaged bytes have in a run's
  // other seven bits is not looked at, as in Arrow.
  Status DecodeBits(int64_t n, uint8_t* out);

  // Passes over n values of bit width 1, at most 2**16, and writes the numbers of those
  // that are 0, counted from 0; returns how many. `at` has room for n of them.
  Result<int64_t> FindZeros(int64_t n, uint16_t* at);

  // Of values of bit width 1: passes over rows of a 0 and then n - 1 times 1, at most
  // `max_rows`, for as long as the encoded bytes of the first repeat; returns how many.
  // Writers that encode each such row alike, as runs of its own, make that all there are.
  Result<int64_t> SkipEqualRows(int64_t n, int64_t max_rows);

  // out[i] = dictionary[value i]; a value of `size` or more is an
  // ErrorKind::kCorruptFile.
  template <typename T>
  Status Lookup(const T* dictionary, int64_t size, int64_t n, T* out);

 private:
  // The next run, perhaps an empty one.
  Status ReadRun();
  // The next run of values.
  Status NextRun();
  Status Truncated() const;
  // Takes n values of the current bit-packed run.
  void Unpack(int64_t n, uint32_t* out);
  // The same, for bit width 1.
  void UnpackBytes(int64_t n, uint8_t* out);
  // Takes n values of the current bit-packed run of bit width 1, of which the first is
  // number `first` of FindZeros; returns the end of the numbers written to `at`.
  uint16_t* UnpackZeros(int64_t n, int64_t first, uint16_t* at);
  // Takes n values and tells whether they are a 0 and then n - 1 times 1.
  Result<bool> TakeRow(int64_t n);
  void Consume(int64_t n) {
    run_left_ -= n;
    if (!repeated_) packed_index_ += n;
  }

  const uint8_t* pos_ = nullptr;  // the next run header
  const uint8_t* end_ = nullptr;
  const uint8_t* packed_ = nullptr;  // the current bit-packed run
  const uint8_t* packed_end_ = nullptr;
  int64_t packed_index_ = 0;  // values of it already taken
  int64_t run_left_ = 0;
  uint32_t value_ = 0;
  uint32_t most_ = UINT32_MAX;
  int bit_width_ = 0;
  bool repeated_ = false;
  std::array<uint32_t, kBlockValues> block_;
};

Status BadIndex(uint32_t index, int64_t size);

template <typename T>
Status HybridDecoder::Lookup(const T* dictionary, int64_t size, int64_t n, T* out) {
  while (n > 0) {
    if (run_left_ == 0) ARROW_RETURN_NOT_OK(NextRun());
    if (repeated_) {
      const int64_t count = std::min(n, run_left_);
      if (value_ >= size) return BadIndex(value_, size);
      std::fill_n(out, count, dictionary[value_]);
      Consume(count);
      out += count;
      n -= count;
      continue;
    }
    const int64_t count = std::min({n, run_left_, kBlockValues});
    Unpack(count, block_.data());
    const uint32_t largest = MaxOf(block_.data(), count);
    if (largest >= size) return BadIndex(largest, size);
    StoreStream(
        out, count, [&](int64_t i) { return dictionary[block_[i]]; }, [](int64_t) {});
    out += count;
    n -= count;
  }
  return Status::OK();
}

}  // namespace fastload
