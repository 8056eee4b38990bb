// A shuffled column of a window as dictionary codes, for as long as they suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace fastload {

// The dictionaries of the window's column chunks, one after the other, as one table.
// Codes are smaller than values, so dealing them out and gathering them stays in caches
// that values would leave; each value is looked up when it is written.
class CodeTable {
 public:
  static constexpr uint32_t kNull = 0;

  // Bytes of the codes of a column of elements of `item` bytes with `chunks` dictionaries
  // of about `entries` entries each; 0 where codes are no gain.
  static int64_t CodeBytes(int64_t entries, int64_t chunks, int64_t item);

  // What no codes of elements of `item` bytes exceed.
  static int64_t MostCodeBytes(int64_t item) { return item / 2; }
  // Bytes of a table of elements of `item` bytes that codes of `code_bytes` reach.
  static int64_t TableBytes(int64_t code_bytes, int64_t item);

  // For codes of `code_bytes` (1, 2 or 4), and elements of `item` bytes; `fill` is what
  // nulls become. The memory is borrowed.
  CodeTable(uint8_t* table, int64_t code_bytes, int64_t item,
            const std::optional<std::string>& fill);

  // Adds a dictionary; the code of its first entry, or nullopt when codes run out.
  std::optional<uint32_t> Add(std::span<const uint8_t> dictionary);

  int64_t code_bytes() const { return code_bytes_; }
  const uint8_t* table() const { return table_; }
  // The element of the code that is stored there.
  const uint8_t* Element(const uint8_t* code) const;

 private:
  uint8_t* table_;
  int64_t code_bytes_;
  int64_t item_;
  int64_t entries_ = 1;
};

}  // namespace fastload
