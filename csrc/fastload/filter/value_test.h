// Tests of values: ranges of keys, which are numbers in the same order as the values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fastload/plan/columns.h"

namespace fastload {

// Returns the key of an element of a tensor, or nullopt if the dtype has no keys. The key
// of an integer or boolean is its value, of a uint64 its value less 2**63. Keys of floats
// follow IEEE 754's totalOrder: -0.0 comes right before 0.0, whose key is 0, and NaNs
// come before and after all numbers.
std::optional<int64_t> KeyOf(DType dtype, const uint8_t* element);

// A range of keys; by default all keys of a dtype.
struct KeyRange {
  int64_t first = INT64_MIN;
  int64_t last = INT64_MAX;  // inclusive

  bool operator==(const KeyRange&) const = default;
};

// The verdict on some rows: no value, some values or all values pass.
enum class Verdict : uint8_t { kNone, kSome, kAll };

// The possible values of some rows of a column.
struct KnownValues {
  std::vector<KeyRange> keys = {{}};  // each value's key is in one of these ranges
  bool nulls = true;                  // some values may be null
  int64_t null_count = -1;            // by the statistics of a chunk; -1: unknown
};

// A test of the values of one column.
struct ValueTest {
  int32_t column = 0;            // index of the ColumnSpec
  std::vector<KeyRange> ranges;  // ranges of keys that pass, in order and disjoint
  bool nulls = false;            // true if a null passes

  // Writes one byte for each of `n` elements: 1 = the element passes. Does not look at
  // nulls.
  void Run(DType dtype, const uint8_t* elements, int64_t n, uint8_t* passes) const;

  Verdict Of(const KnownValues& known) const;
};

}  // namespace fastload
