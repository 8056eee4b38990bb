// Repetition levels and definition levels of a leaf in lists: the meaning of the levels,
// and the levels of one data page in blocks. The encoding is Dremel's, as Parquet
// describes it: https://parquet.apache.org/docs/file-format/nestedencoding/
#pragma once

#include <array>
#include <climits>
#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/level_stream.h"
#include "parquet/column_page.h"
#include "parquet/schema.h"

namespace fastload {

// The meaning of the definition levels of a leaf.
struct ListThresholds {
  // The definition level of an element that is not null; see PresentLevel.
  int max_definition = 0;
  // For each level of lists, the outermost first: the least definition level at which the
  // list has elements. One level below, the list is empty; further below, the list or a
  // struct around the list is null.
  std::vector<int> element;
  // Larger repetition levels are of lists inside the elements, and are passed over.
  int most_repetition = INT_MAX;
};

// Returns the thresholds of a leaf. Every repeated group on the path to the leaf is a
// list, annotated or not. The elements of a leaf of type null may themselves be null
// lists; `levels` is the depth of lists in all. With `shared` above 0, the leaf stands in
// for another one: the elements of its outermost `shared` levels of lists are null.
ListThresholds ThresholdsOf(const parquet::ColumnDescriptor& descr, int64_t levels = 0,
                            int shared = 0);

// Consecutive levels: one pair for each element or null, and for each empty or null list.
struct LevelSpan {
  int64_t levels = 0;
  // Number of repetition levels 0, which is the number of rows that begin here.
  int64_t starts = 0;

  // The length of each row, if the span consists of whole rows of equal length in a
  // column with one level of lists, and every definition level is the largest; else 0.
  int64_t row_length = 0;
  // The starts of rows, if rows of a column with one level of lists have unequal lengths
  // and every definition level is the largest: rows begin exactly at the levels
  // start_levels[i] - first.
  const uint16_t* start_levels = nullptr;
  int64_t first = 0;

  // Otherwise one byte for each level.
  const uint8_t* repetition = nullptr;
  const uint8_t* definition = nullptr;

  bool all_present() const { return repetition == nullptr; }
  // Returns true if the first level, which must exist, begins a row.
  bool begins_row() const {
    if (row_length > 0) return true;
    if (start_levels != nullptr) return starts > 0 && start_levels[0] == first;
    return repetition[0] == 0;
  }
};

// The levels of the pages of a column chunk, page after page.
class NestedLevels {
 public:
  // `row_length` is the likely number of elements of a row; 0: unknown. `present` is the
  // definition level of a value: ListThresholds::max_definition.
  NestedLevels(const parquet::ColumnDescriptor& descr, int64_t row_length, int present);

  // Takes the levels of a page whose bytes are borrowed. Returns how many bytes of the
  // page precede the values.
  Result<int64_t> SetPage(const parquet::DataPage& page);

  // Returns the number of levels left in the page.
  int64_t left() const { return page_left_ + block_left_; }

  // Returns the next levels (there must be some) of at most a block, up to the level at
  // which row number `max_starts`, counted from 0, would begin. Returns no levels if that
  // row begins at the next level. The span is valid until the next call.
  Result<LevelSpan> Next(int64_t max_starts);

 private:
  // Levels decoded at once: kStartsBlock where only the starts of rows matter,
  // kBytesBlock where levels become bytes.
  static constexpr int64_t kStartsBlock = 8192;
  static constexpr int64_t kBytesBlock = LevelStream::kBlockLevels;

  Status DecodeBlock();
  // Decodes a block of at most `levels` levels, all of which are elements.
  Status DecodePresent(int64_t levels);
  LevelSpan NextRows(int64_t max_starts) const;
  LevelSpan NextStarts(int64_t max_starts) const;
  LevelSpan NextBytes(int64_t max_starts) const;

  int max_definition_;
  int64_t row_length_;
  LevelStream repetition_;
  LevelStream definition_;
  int64_t page_left_ = 0;   // levels not decoded yet
  int64_t block_left_ = 0;  // levels decoded, but not returned yet
  int64_t block_at_ = 0;
  enum class Block : uint8_t { kRows, kStarts, kBytes };
  Block block_ = Block::kBytes;
  std::array<uint16_t, kStartsBlock> start_levels_;
  int64_t next_start_ = 0;  // index of the first start that is not returned yet
  int64_t end_start_ = 0;
  std::array<uint8_t, kBytesBlock> repetition_bytes_;
  std::array<uint8_t, kBytesBlock> definition_bytes_;
};

}  // namespace fastload
