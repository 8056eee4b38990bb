#include "fastload/collate/window_codes.h"

#include <cstring>

namespace fastload {
namespace {

// Returns the most entries of a table, the entry for nulls included.
constexpr int64_t MostEntries(int64_t code_bytes) {
  // A table of more than 2**19 entries exceeds the caches in which codes stay.
  return code_bytes == 4 ? int64_t{1} << 19 : int64_t{1} << (8 * code_bytes);
}

}  // namespace

int64_t CodeTable::CodeBytes(int64_t entries, int64_t chunks, int64_t item,
                             int64_t rows) {
  // The other dictionaries may be somewhat larger than this dictionary.
  const int64_t others = (chunks - 1) * (entries + entries / 4);
  if (entries + others > rows) return 0;  // the table would exceed the values
  for (int64_t code_bytes = 1; code_bytes < item; code_bytes *= 2) {
    if (1 + entries + others <= MostEntries(code_bytes)) return code_bytes;
  }
  return 0;
}

int64_t CodeTable::TableBytes(int64_t code_bytes, int64_t item) {
  return code_bytes == 0 ? 0 : MostEntries(code_bytes) * item;
}

CodeTable::CodeTable(uint8_t* table, int64_t code_bytes, int64_t item,
                     const std::optional<std::string>& fill)
    : table_(table), code_bytes_(code_bytes), item_(item) {
  if (fill) std::memcpy(table, fill->data(), static_cast<size_t>(item));
}

std::optional<uint32_t> CodeTable::Add(std::span<const uint8_t> dictionary) {
  const auto bytes = static_cast<int64_t>(dictionary.size());
  if (entries_ + bytes / item_ > MostEntries(code_bytes_)) return std::nullopt;
  std::memcpy(table_ + entries_ * item_, dictionary.data(), dictionary.size());
  const auto first = static_cast<uint32_t>(entries_);
  entries_ += bytes / item_;
  return first;
}

const uint8_t* CodeTable::Element(const uint8_t* code) const {
  uint32_t entry = 0;  // little-endian: the code is the low bytes
  std::memcpy(&entry, code, static_cast<size_t>(code_bytes_));
  return table_ + entry * item_;
}

}  // namespace fastload
