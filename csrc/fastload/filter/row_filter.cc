#include "fastload/filter/row_filter.h"

#include <algorithm>

namespace fastload {
namespace {

// Evaluates the program with operand(test) for each test, and(a, b) and or(a, b).
template <typename T, typename Operand, typename And, typename Or>
T Evaluate(const std::vector<int32_t>& program, const Operand& operand,
           const And& joined_by_and, const Or& joined_by_or) {
  std::vector<T> stack;
  for (const int32_t step : program) {
    if (step >= 0) {
      stack.push_back(operand(static_cast<size_t>(step)));
      continue;
    }
    const T second = stack.back();
    stack.pop_back();
    stack.back() = step == RowFilter::kAnd ? joined_by_and(stack.back(), second)
                                           : joined_by_or(stack.back(), second);
  }
  return stack.back();
}

}  // namespace

Status RowFilter::Check(size_t columns) const {
  size_t depth = 0;
  std::vector<bool> asked(tests.size());
  for (const int32_t step : program) {
    const bool known = step < static_cast<int32_t>(tests.size()) && step >= kOr;
    if (!known || (step < 0 && depth < 2) ||
        (step >= 0 && asked[static_cast<size_t>(step)])) {
      return Status::Invalid("Expected each of ", tests.size(),
                             " tests once, and operators that join two, got ", step);
    }
    if (step >= 0) asked[static_cast<size_t>(step)] = true;
    depth += step < 0 ? -1 : 1;
  }
  if (depth != 1) return Status::Invalid("Expected one outcome, got ", depth);
  for (const ValueTest& test : tests) {
    if (test.column < 0 || test.column >= static_cast<int32_t>(columns)) {
      return Status::Invalid("Expected one of ", columns, " columns, got ", test.column);
    }
    for (size_t i = 0; i < test.ranges.size(); ++i) {
      const KeyRange& range = test.ranges[i];
      if (range.first > range.last || (i > 0 && range.first <= test.ranges[i - 1].last)) {
        return Status::Invalid("Expected ranges in order, apart from each other");
      }
    }
  }
  return Status::OK();
}

Verdict RowFilter::Of(const std::vector<KnownValues>& known) const {
  return Evaluate<Verdict>(
      program,
      [&](size_t i) { return tests[i].Of(known[static_cast<size_t>(tests[i].column)]); },
      [](Verdict a, Verdict b) { return std::min(a, b); },
      [](Verdict a, Verdict b) { return std::max(a, b); });
}

const uint8_t* RowFilter::Join(std::span<uint8_t* const> passes, int64_t n) const {
  return Evaluate<uint8_t*>(
      program, [&](size_t i) { return passes[i]; },
      [n](uint8_t* a, const uint8_t* b) {
        for (int64_t i = 0; i < n; ++i) a[i] &= b[i];
        return a;
      },
      [n](uint8_t* a, const uint8_t* b) {
        for (int64_t i = 0; i < n; ++i) a[i] |= b[i];
        return a;
      });
}

}  // namespace fastload
