// A walk over the pages of one flat column chunk, which maps rows to values.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/pages/data_pages.h"
#include "fastload/decode/pages/definition_levels.h"

namespace fastload {

// Returns the error of a null at row `row` of the row group, in a column without a fill.
Status UnexpectedNull(int64_t row);

// A cursor over the rows of a flat column chunk. Lets exceptions of libparquet pass;
// callers use CatchParquet.
class PageCursor {
 public:
  // `values` is borrowed, and outlives the cursor.
  PageCursor(ChunkInput input, PageValues* values);

  // Skips `rows` rows. Whole pages are skipped when the next rows are read.
  Status Skip(int64_t rows);

  // Goes to the page of the next row, which must exist.
  Status Load();

  // Returns the next rows, at most `max_rows` (more than 0). The caller must take the
  // values of the span's non-null rows from the PageValues before the next call.
  Result<DefinitionLevels::Span> Next(int64_t max_rows);

  // Goes to the page of the next row, and returns how many of the next `rows` rows (more
  // than 0) are in this page. Returns 0 if any of these may be null.
  Result<int64_t> RowsWithoutNull(int64_t rows);

  // The next rows are not read for a while: keeps what is left of the page, and frees the
  // page's memory where that is possible.
  void Rest();

  int64_t page() const { return pages_.page(); }

  // Returns the error of the first null in `span`, which Next returned last, at the
  // null's row of the row group.
  Status NullIn(const DefinitionLevels::Span& span) const;

  // Adds the row of the row group to the error of one value of `span`, which Next
  // returned last. Returns any other error unchanged.
  Status ValueIn(const DefinitionLevels::Span& span, const Status& status) const;

 private:
  // Throws unless the next page has as many rows as the offset index says.
  void CheckRows(const parquet::DataPageStats& stats) const;
  Status NextPage();
  Status SkipInPage(int64_t rows);

  DataPages pages_;  // has a callback to this cursor, which therefore must not move
  PageValues* values_;
  const std::vector<int64_t> page_rows_;  // rows of each page; empty: unknown
  DefinitionLevels levels_;
  int64_t rows_left_ = 0;    // rows left in the page
  int64_t level_bytes_ = 0;  // at the front of the page
  const int64_t rows_;       // rows of the row group
  int64_t rows_total_;       // rows of the row group not yet read or skipped
  int64_t skip_ = 0;         // rows still to be skipped behind the page
};

}  // namespace fastload
