// Decoder of Parquet's RLE / bit-packed hybrid: levels, dictionary indices, booleans.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "fastload/base/prefetch.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/bit_unpack.h"

namespace fastload {

// A decoder that borrows its bytes, and never reads outside the bytes. After an error the
// decoder is unusable until the next Reset.
class HybridDecoder {
 public:
  // The values unpacked at once; the values stay in the L1 cache until they are looked
  // up.
  static constexpr int64_t kBlockValues = 512;

  // Starts decoding values of `bit_width` (0 to 32) bits. A run of equal values stores
  // its value in whole bytes, so the value may exceed the bit width: a value above `most`
  // is an ErrorKind::kCorruptFile.
  void Reset(const uint8_t* data, int64_t size, int bit_width,
             uint32_t most = UINT32_MAX);

  // The borrowed bytes have moved from `from` to `to`.
  void Move(const uint8_t* from, const uint8_t* to);

  // The next `length` values: equal values, or, if `repeated` is false, bit-packed
  // values. Length 0 means the end of the data.
  struct Run {
    bool repeated = false;
    uint32_t value = 0;
    int64_t length = 0;
  };
  Result<Run> Peek();

  // The place of the next value. The decoder of the same bytes goes on from there.
  struct Position {
    const uint8_t* pos = nullptr;
    const uint8_t* end = nullptr;
    const uint8_t* packed = nullptr;
    const uint8_t* packed_end = nullptr;
    int64_t packed_index = 0;
    int64_t run_left = 0;
    uint32_t value = 0;
    uint32_t most = 0;
    int bit_width = 0;
    bool repeated = false;

    bool operator==(const Position&) const = default;
  };
  Position position() const;
  void GoTo(const Position& position);

  Status Skip(int64_t n);
  // Decodes n values, to uint16_t only if the bit width is at most 16.
  template <typename Code>
  Status Decode(int64_t n, Code* out);
  int bit_width() const { return bit_width_; }

  // Decodes n values of bit width 1 to bytes, 0 or 1. In damaged data the other seven
  // bits of a run's value are ignored, as in Arrow.
  Status DecodeBits(int64_t n, uint8_t* out);

  // Consumes n values of bit width 1, at most 2**16, and writes the indices (from 0) of
  // the values that are 0 to `at`, which has room for n indices. Returns the number of
  // indices.
  Result<int64_t> FindZeros(int64_t n, uint16_t* at);

  // Consumes rows of n values of bit width 1 that are a 0 followed by n - 1 times 1, at
  // most `max_rows` rows, for as long as the encoded bytes of the first row repeat.
  // Returns the number of rows. Finds all such rows if the writer encodes each row in the
  // same way, as runs of its own.
  Result<int64_t> SkipEqualRows(int64_t n, int64_t max_rows);

  // Sets out[i] = dictionary[value i]. A value of `size` or more is an
  // ErrorKind::kCorruptFile.
  template <typename T>
  Status Lookup(const T* dictionary, int64_t size, int64_t n, T* out);

 private:
  // Reads the header of the next run, which may be empty.
  Status ReadRun();
  // Goes to the next run that has values.
  Status NextRun();
  Status Truncated() const;
  // Unpacks n values of the current bit-packed run, to uint16_t only if the bit width is
  // at most 16.
  template <typename Code>
  void Unpack(int64_t n, Code* out);
  // Returns n values of the current bit-packed run: as they are stored if they are whole
  // integers, at any address, else unpacked to `block`.
  template <typename Code>
  const uint8_t* Codes(int64_t n, Code* block);
  // Sets out[i] = dictionary[value i] for n values of the current bit-packed run.
  template <typename Code, typename T>
  Status LookupPacked(const T* dictionary, int64_t size, int64_t n, T* out);
  // Unpacks n values of bit width 1 of the current bit-packed run.
  void UnpackBytes(int64_t n, uint8_t* out);
  // Unpacks n values of bit width 1 of the current bit-packed run; the first value is
  // value number `first` of FindZeros. Returns the end of the indices written to `at`.
  uint16_t* UnpackZeros(int64_t n, int64_t first, uint16_t* at);
  // Consumes n values. Returns true if the values are a 0 followed by n - 1 times 1.
  Result<bool> TakeRow(int64_t n);
  void Consume(int64_t n) {
    run_left_ -= n;
    if (!repeated_) packed_index_ += n;
  }

  const uint8_t* pos_ = nullptr;  // the next run's header
  const uint8_t* end_ = nullptr;
  const uint8_t* packed_ = nullptr;  // start of the current bit-packed run
  const uint8_t* packed_end_ = nullptr;
  int64_t packed_index_ = 0;  // values of the bit-packed run already consumed
  int64_t run_left_ = 0;
  uint32_t value_ = 0;
  uint32_t most_ = UINT32_MAX;
  int bit_width_ = 0;
  bool repeated_ = false;
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
    ARROW_RETURN_NOT_OK(bit_width_ <= 16
                            ? LookupPacked<uint16_t>(dictionary, size, count, out)
                            : LookupPacked<uint32_t>(dictionary, size, count, out));
    out += count;
    n -= count;
  }
  return Status::OK();
}

template <typename Code, typename T>
Status HybridDecoder::LookupPacked(const T* dictionary, int64_t size, int64_t n, T* out) {
  std::array<Code, kBlockValues> block;
  const uint8_t* const codes = Codes(n, block.data());
  const uint32_t largest = MaxOf(reinterpret_cast<const Code*>(codes), n);
  if (largest >= size) return BadIndex(largest, size);
  const auto element = [&](int64_t i) {
    Code code;
    std::memcpy(&code, codes + i * static_cast<int64_t>(sizeof(Code)), sizeof(Code));
    return dictionary[code];
  };
  StoreStream(out, n, element);
  return Status::OK();
}

}  // namespace fastload
