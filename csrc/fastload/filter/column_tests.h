// The tests of one column, run on blocks of the column's rows.
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

// The tests of one column, front to back. Each value of a dictionary is tested once.
class ColumnTests {
 public:
  // The rows of a block; the outcomes of a block stay in the L1 and L2 cache.
  static constexpr int64_t kBlockRows = 4096;

  // `spec` is borrowed.
  ColumnTests(const ColumnSpec* spec, bool nullable) : spec_(spec), nullable_(nullable) {}

  // Adds a test. `passes` receives one byte for each row of a block. Both are borrowed.
  void Add(const ValueTest* test, uint8_t* passes) {
    tests_.push_back({.test = test, .passes = passes, .of_codes = {}});
  }
  void Open(std::unique_ptr<FixedReader> reader) { reader_ = std::move(reader); }

  // Tests the next `rows` rows, at most kBlockRows.
  Status Run(int64_t rows);

  const std::string& name() const { return spec_->name; }
  int64_t page() const { return reader_ ? reader_->page() : -1; }

 private:
  struct Outcome {
    const ValueTest* test;
    uint8_t* passes;
    std::vector<uint8_t> of_codes;  // outcomes by entry of the dictionary
  };

  // Tests at most `most` rows from row `at` of the block on. Returns how many rows were
  // tested.
  Result<int64_t> RunPage(int64_t at, int64_t most);

  // Runs the tests on each entry of a dictionary.
  void LookAt(std::span<const uint8_t> dictionary);

  const ColumnSpec* const spec_;
  const bool nullable_;
  std::vector<Outcome> tests_;
  std::unique_ptr<FixedReader> reader_;
  const uint8_t* dictionary_ = nullptr;
  std::vector<uint64_t> values_;  // values or codes of a block
  std::vector<uint8_t> valid_;
};

}  // namespace fastload
