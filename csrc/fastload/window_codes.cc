#include "fastload/window_codes.h"

#include <cstring>

namespace fastload {

Result<CodeTable> CodeTable::Make(int64_t rows, int64_t item,
                                  const std::optional<std::string>& fill,
                                  Scratch* scratch) {
  uint8_t* codes = scratch->Get(Scratch::kCodes, rows * 2);
  uint8_t* table = scratch->Get(Scratch::kTable, kMostEntries * item);
  if (codes == nullptr || table == nullptr) {
    return Status::OutOfMemory("Expected memory for the codes of ", rows, " rows");
  }
  if (fill) std::memcpy(table, fill->data(), static_cast<size_t>(item));
  return CodeTable(reinterpret_cast<uint16_t*>(codes), table, item);
}

std::optional<uint16_t> CodeTable::Add(std::span<const uint8_t> dictionary) {
  const auto bytes = static_cast<int64_t>(dictionary.size());
  if (entries_ + bytes / item_ > kMostEntries) return std::nullopt;
  std::memcpy(table_ + entries_ * item_, dictionary.data(), dictionary.size());
  const auto first = static_cast<uint16_t>(entries_);
  entries_ += bytes / item_;
  return first;
}

}  // namespace fastload
