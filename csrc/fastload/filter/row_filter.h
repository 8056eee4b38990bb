// A filter of rows: tests of columns, joined by "and" and "or".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/filter/value_test.h"

namespace fastload {

struct RowFilter {
  static constexpr int32_t kAnd = -1;
  static constexpr int32_t kOr = -2;

  std::vector<ValueTest> tests;
  // The filter in postfix notation: the number of a test, each at most once, stands for
  // the test's outcome; kAnd and kOr join the two outcomes before.
  std::vector<int32_t> program;

  // Returns an error unless the program has one outcome, and its tests and columns exist.
  Status Check(size_t columns) const;

  // Returns the verdict on rows, given what is known of each column, by index of the
  // ColumnSpec.
  Verdict Of(const std::vector<KnownValues>& known) const;

  // Joins the outcomes of the tests for `n` rows, one byte per row. Overwrites `passes`,
  // and returns the joined outcome.
  const uint8_t* Join(std::span<uint8_t* const> passes, int64_t n) const;
};

}  // namespace fastload
