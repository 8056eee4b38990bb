// The definition levels of a flat column's data page, as which rows are null.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/level_stream.h"
#include "parquet/column_page.h"

namespace fastload {

class DefinitionLevels {
 public:
  // The rows decoded at once where nulls and values are mixed.
  static constexpr int64_t kBlockRows = LevelStream::kBlockLevels;

  explicit DefinitionLevels(const parquet::ColumnDescriptor& descr)
      : max_level_(descr.max_definition_level()),
        present_level_(PresentLevel(descr)),
        levels_(max_level_) {}

  // Takes the levels of a page whose bytes are borrowed. Returns how many bytes of the
  // page precede the values.
  Result<int64_t> SetPage(const parquet::DataPage& page);

  // The page's bytes have moved from `from` to `to`. Only if movable().
  void Move(const uint8_t* from, const uint8_t* to) {
    if (max_level_ > 0) levels_.Move(from, to);
  }
  bool movable() const { return max_level_ == 0 || levels_.movable(); }

  // A number of rows that are all null, all not null, or mixed with one byte per row in
  // `valid`.
  struct Span {
    int64_t rows = 0;
    int64_t non_null = 0;
    const uint8_t* valid = nullptr;  // null unless mixed; valid until the next call

    // Writes one byte per row: 1 for a value, 0 for a null.
    void StoreValid(uint8_t* out) const {
      const auto size = static_cast<size_t>(rows);
      if (valid != nullptr) {
        std::memcpy(out, valid, size);
      } else {
        std::memset(out, non_null != 0, size);
      }
    }
  };
  // Returns at least one row and at most `max_rows` (more than 0).
  Result<Span> Next(int64_t max_rows);

  // Returns true if one run says that none of the next `rows` rows (more than 0) is null.
  Result<bool> NoneNull(int64_t rows);

 private:
  int16_t max_level_;
  int present_level_;
  LevelStream levels_;
  std::vector<uint8_t> valid_;
};

}  // namespace fastload
