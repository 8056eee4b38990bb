// Which rows pass: tests of columns, joined by "and" and "or".
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
  // Postfix: a number of a test, each of which comes once at most, stands for what that
  // says; kAnd and kOr join the two before.
  std::vector<int32_t> program;

  // An error unless the program has one outcome, of tests and columns that are there.
  Status Check(size_t columns) const;

  // Of rows of whose columns that much is known, by index of the ColumnSpec.
  Verdict Of(const std::vector<KnownValues>& known) const;

  // Joins what each test said of `n` rows, a byte a row; changes that, and returns the
  // outcome.
  const uint8_t* Join(std::span<uint8_t* const> passes, int64_t n) const;
};

}  // namespace fastload
