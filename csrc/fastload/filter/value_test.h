// Which values of a column pass: ranges of keys, numbers in the values' own order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fastload/plan/columns.h"

namespace fastload {

// The key of an element of a tensor. Integers and booleans are their own, those of uint64
// less 2**63. Floats are in the order of IEEE 754's totalOrder: -0.0 comes right before
// 0.0 = 0, and NaNs before and after all numbers. nullopt: the dtype has no keys.
std::optional<int64_t> KeyOf(DType dtype, const uint8_t* element);

// All keys of a dtype that has some.
struct KeyRange {
  int64_t first = INT64_MIN;
  int64_t last = INT64_MAX;  // itself among them

  bool operator==(const KeyRange&) const = default;
};

// Whether the values of some rows pass.
enum class Verdict : uint8_t { kNone, kSome, kAll };

// What is known of the values of some rows of a column.
struct KnownValues {
  std::vector<KeyRange> keys = {{}};  // each value has one of these
  bool nulls = true;                  // some may be null
};

// The test of one column's values.
struct ValueTest {
  int32_t column = 0;            // index of the ColumnSpec
  std::vector<KeyRange> ranges;  // of the keys that pass; in order, apart from each other
  bool nulls = false;            // a null passes

  // Writes a byte for each of `n` elements, 1 = passes. Nulls are not asked after.
  void Run(DType dtype, const uint8_t* elements, int64_t n, uint8_t* passes) const;

  Verdict Of(const KnownValues& known) const;
};

}  // namespace fastload
