// A shuffled column of a window as 16-bit codes, for as long as they suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fastload/executor.h"
#include "fastload/status.h"

namespace fastload {

// The dictionaries of the window's column chunks, one after the other, as one table.
// Codes are a quarter of the size of 8-byte values, so dealing them out and gathering
// them stays in caches that values would leave; each value is looked up when it is
// written.
class CodeTable {
 public:
  static constexpr uint16_t kNull = 0;
  static constexpr int64_t kMostEntries = 1 << 16;

  // For `rows` rows of elements of `item` bytes; `fill` is what nulls become. Memory is
  // that of `scratch`.
  static Result<CodeTable> Make(int64_t rows, int64_t item,
                                const std::optional<std::string>& fill, Scratch* scratch);

  // Adds a dictionary; the code of its first entry, or nullopt when codes run out.
  std::optional<uint16_t> Add(std::span<const uint8_t> dictionary);

  uint16_t* codes() { return codes_; }
  const uint8_t* table() const { return table_; }

 private:
  CodeTable(uint16_t* codes, uint8_t* table, int64_t item)
      : codes_(codes), table_(table), item_(item) {}

  uint16_t* codes_;  // by slot
  uint8_t* table_;
  int64_t item_;
  int64_t entries_ = 1;
};

}  // namespace fastload
