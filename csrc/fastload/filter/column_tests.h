// The tests of one column, run on blocks of its rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/filter/value_test.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Front to back. A value of a dictionary is tested once.
class ColumnTests {
 public:
  // Rows of a block: what is known of them stays in the L1 and L2 cache.
  static constexpr int64_t kBlockRows = 4096;

  // `spec` is borrowed.
  ColumnTests(const ColumnSpec* spec, bool nullable) : spec_(spec), nullable_(nullable) {}

  // `passes` receives a byte a row of the block. Both are borrowed.
  void Add(const ValueTest* test, uint8_t* passes) {
    tests_.push_back({.test = test, .passes = passes, .of_codes = {}});
  }
  void Open(std::unique_ptr<FixedReader> reader) { reader_ = std::move(reader); }

  // Tests the next `rows`, kBlockRows at the most.
  Status Run(int64_t rows);

  const std::string& name() const { return spec_->name; }
  int64_t page() const { return reader_ ? reader_->page() : -1; }

 private:
  struct Outcome {
    const ValueTest* test;
    uint8_t* passes;
    std::vector<uint8_t> of_codes;  // by entry of the dictionary
  };

  // Rows from `at` of the block on, at most `most`; returns how many.
  Result<int64_t> RunPage(int64_t at, int64_t most);

  // Asks the tests of each entry of a dictionary.
  void LookAt(std::span<const uint8_t> dictionary);

  const ColumnSpec* const spec_;
  const bool nullable_;
  std::vector<Outcome> tests_;
  std::unique_ptr<FixedReader> reader_;
  const uint8_t* dictionary_ = nullptr;
  std::vector<uint64_t> values_;  // or codes
  std::vector<uint8_t> valid_;
};

}  // namespace fastload
