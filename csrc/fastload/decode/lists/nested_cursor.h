// Walks the levels of one column chunk of lists, page after page, row by row.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/lists/nested_levels.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/pages/data_pages.h"

namespace fastload {

// What libparquet throws passes through; callers wrap their work in CatchParquet.
class NestedCursor {
 public:
  // `values` is borrowed and outlives the cursor. Rows of `row_length` elements, unless
  // it is 0, are likely.
  NestedCursor(ChunkInput input, PageValues* values, int64_t row_length);

  // Passes over `rows` rows when the next ones are read. Whole pages that tell their rows
  // (those of V2) are not decompressed.
  Status Skip(int64_t rows);

  // Goes to the next row; `rows` of them will be read, through Next, to their ends.
  Status Begin(int64_t rows);

  // The next levels of one page: what is left of the row that has begun, and at most
  // `rows` rows that begin here. No levels: `rows` is 0 and the last row is complete. The
  // values of the span must be taken from the PageValues before the next call.
  Result<LevelSpan> Next(int64_t rows);

  int64_t page() const { return pages_.page(); }

  // The error of one of the levels of `span`, the one that Next(rows) gave last, at its
  // row of the row group. Any other error comes back as it is.
  Status LevelIn(const LevelSpan& span, int64_t rows, const Status& status) const;

 private:
  // Next, where `rows` may fall while pages are passed over.
  Result<LevelSpan> NextOf(const int64_t& rows);
  // False at the end of the chunk.
  Result<bool> NextPage();
  bool PassOver(const parquet::DataPageStats& stats);
  Status EndPage();
  Status DropSkipped();

  int max_definition_;
  DataPages pages_;  // calls back to this, which therefore stays where it is
  PageValues* values_;
  const std::vector<int64_t> known_page_rows_;  // of each page; empty: not told
  NestedLevels levels_;
  const int64_t rows_;   // of the row group
  int64_t rows_left_;    // of those, not yet read or skipped
  int64_t levels_left_;  // of pages not yet loaded, as the footer tells
  int64_t skip_ = 0;     // rows still to be passed over
  // A row has begun, and the next page may hold more of it.
  bool open_ = false;
  bool page_ends_rows_ = false;  // a page of V2
  int64_t page_rows_ = -1;       // as told; -1: not to be relied upon
  int64_t page_starts_ = 0;      // rows that have begun in the page
};

}  // namespace fastload
