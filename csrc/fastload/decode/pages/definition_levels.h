// Definition levels of one data page, as the null or not null of its rows.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/level_stream.h"
#include "parquet/column_page.h"

namespace fastload {

class DefinitionLevels {
 public:
  // Rows decoded at once when nulls and values are mixed.
  static constexpr int64_t kBlockRows = LevelStream::kBlockLevels;

  explicit DefinitionLevels(int16_t max_level)
      : max_level_(max_level), levels_(max_level) {}

  // Takes the levels of a page whose bytes are borrowed; returns the bytes of the page
  // that come before its values.
  Result<int64_t> SetPage(const parquet::DataPage& page);

  // `rows` rows from here: all null, none null, or mixed, with a byte per row in `valid`.
  struct Span {
    int64_t rows = 0;
    int64_t non_null = 0;
    const uint8_t* valid = nullptr;  // null unless mixed; good until the next call
  };
  // At least one row and at most `max_rows` (more than 0).
  Result<Span> Next(int64_t max_rows);

 private:
  int16_t max_level_;
  LevelStream levels_;
  std::vector<uint8_t> valid_;
};

}  // namespace fastload
