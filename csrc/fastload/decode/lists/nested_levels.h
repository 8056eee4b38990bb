// Repetition and definition levels of a leaf in lists: what they mean, and those of one
// data page in blocks. Dremel's encoding, as Parquet describes it:
// https://parquet.apache.org/docs/file-format/nestedencoding/
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/level_stream.h"
#include "parquet/column_page.h"
#include "parquet/schema.h"

namespace fastload {

// What the definition levels of a leaf mean.
struct ListThresholds {
  // The element itself is not null.
  int max_definition = 0;
  // Of each level of lists, the outermost first: from this definition level on the list
  // has elements; one below it is empty; further below, it or a struct around it is null.
  std::vector<int> element;
};

// Lists are what repeats on the way to the leaf, annotated as lists or not. Of a leaf of
// type null, its elements may be null lists, `levels` deep in all.
ListThresholds ThresholdsOf(const parquet::ColumnDescriptor& descr, int64_t levels = 0);

// Levels side by side, one pair for each element, or null, or empty or null list.
struct LevelSpan {
  int64_t levels = 0;
  int64_t starts = 0;  // repetition levels of 0: the rows that begin here

  // In a column with one level of lists, where every definition level is the largest:
  // either whole rows of equal length, and no more than that is said of them, ...
  int64_t row_length = 0;
  // ... or rows begin at the levels start_levels[i] - first, and no others.
  const uint16_t* start_levels = nullptr;
  int64_t first = 0;

  // Else a byte for each level.
  const uint8_t* repetition = nullptr;
  const uint8_t* definition = nullptr;

  bool all_present() const { return repetition == nullptr; }
  // Whether the first level, which there must be, begins a row.
  bool begins_row() const {
    if (row_length > 0) return true;
    if (start_levels != nullptr) return starts > 0 && start_levels[0] == first;
    return repetition[0] == 0;
  }
};

// The levels of the pages of a column chunk, page after page.
class NestedLevels {
 public:
  // Rows of `row_length` elements, unless it is 0, are likely.
  NestedLevels(const parquet::ColumnDescriptor& descr, int64_t row_length);

  // Takes the levels of a page whose bytes are borrowed; returns how many bytes of the
  // page come before its values.
  Result<int64_t> SetPage(const parquet::DataPage& page);

  // Levels left in the page.
  int64_t left() const { return page_left_ + block_left_; }

  // The next levels (there must be some), at most those of a block: up to the level at
  // which row number `max_starts`, counted from 0, would begin. No levels if that is the
  // very next. Good until the next call.
  Result<LevelSpan> Next(int64_t max_starts);

 private:
  // Levels decoded at once: when only the starts of rows matter, and when they are bytes.
  static constexpr int64_t kStartsBlock = 8192;
  static constexpr int64_t kBytesBlock = LevelStream::kBlockLevels;

  Status DecodeBlock();
  // A block of at most `levels` levels, all of them of elements.
  Status DecodePresent(int64_t levels);
  LevelSpan NextRows(int64_t max_starts) const;
  LevelSpan NextStarts(int64_t max_starts) const;
  LevelSpan NextBytes(int64_t max_starts) const;

  int max_definition_;
  int64_t row_length_;
  LevelStream repetition_;
  LevelStream definition_;
  int64_t page_left_ = 0;   // not decoded yet
  int64_t block_left_ = 0;  // decoded, not handed out yet
  int64_t block_at_ = 0;
  enum class Block : uint8_t { kRows, kStarts, kBytes };
  Block block_ = Block::kBytes;
  std::array<uint16_t, kStartsBlock> start_levels_;
  int64_t next_start_ = 0;  // of them, not handed out yet
  int64_t end_start_ = 0;
  std::array<uint8_t, kBytesBlock> repetition_bytes_;
  std::array<uint8_t, kBytesBlock> definition_bytes_;
};

}  // namespace fastload
