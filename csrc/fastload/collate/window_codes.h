// A shuffled column of a window as dictionary codes, as long as codes suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace fastload {

// A table of the dictionaries of the window's column chunks, one after another. Codes are
// smaller than values, so dealing and gathering codes stays in caches that values would
// not fit; each value is looked up when it is written.
class CodeTable {
 public:
  static constexpr uint32_t kNull = 0;

  // Returns the bytes of a code for a column with elements of `item` bytes and `chunks`
  // dictionaries of about `entries` entries each, of which a window has `rows` rows; or 0
  // if codes bring no gain.
  static int64_t CodeBytes(int64_t entries, int64_t chunks, int64_t item, int64_t rows);

  // Returns the most bytes of a code for elements of `item` bytes.
  static int64_t MostCodeBytes(int64_t item) { return item / 2; }
  // Returns the bytes of a table of elements of `item` bytes that codes of `code_bytes`
  // bytes can address.
  static int64_t TableBytes(int64_t code_bytes, int64_t item);

  // Makes a table for codes of `code_bytes` (1, 2 or 4) bytes and elements of `item`
  // bytes; nulls become `fill`. The memory is borrowed.
  CodeTable(uint8_t* table, int64_t code_bytes, int64_t item,
            const std::optional<std::string>& fill);

  // Adds a dictionary. Returns the code of its first entry, or nullopt if the codes run
  // out.
  std::optional<uint32_t> Add(std::span<const uint8_t> dictionary);

  int64_t code_bytes() const { return code_bytes_; }
  const uint8_t* table() const { return table_; }
  // Returns the element of the code at address `code`.
  const uint8_t* Element(const uint8_t* code) const;

 private:
  uint8_t* table_;
  int64_t code_bytes_;
  int64_t item_;
  int64_t entries_ = 1;
};

}  // namespace fastload
