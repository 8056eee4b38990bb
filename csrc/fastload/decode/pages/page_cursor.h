// Walks the pages of one flat column chunk and tells its rows from its values.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/pages/data_pages.h"
#include "fastload/decode/pages/definition_levels.h"

namespace fastload {

// The error of a null, at that row of the row group, in a column that takes none.
Status UnexpectedNull(int64_t row);

// What libparquet throws passes through; callers wrap their work in CatchParquet.
class PageCursor {
 public:
  // `values` is borrowed and outlives the cursor.
  PageCursor(ChunkInput input, PageValues* values);

  // Passes over `rows` rows. Whole pages are passed over when the next rows are read.
  Status Skip(int64_t rows);

  // Goes to the page of the next row; there must be one.
  Status Load();

  // The next rows, at most `max_rows` (more than 0). Their values, as many as the span
  // has rows that are not null, must be taken from the PageValues before the next call.
  Result<DefinitionLevels::Span> Next(int64_t max_rows);

  int64_t page() const { return pages_.page(); }

  // The error of a null in `span`, the one that Next gave last, at its row of the row
  // group.
  Status NullIn(const DefinitionLevels::Span& span) const;

  // The error of one of the values of `span`, the one that Next gave last, at the value's
  // row of the row group. Any other error comes back as it is.
  Status ValueIn(const DefinitionLevels::Span& span, const Status& status) const;

 private:
  // Throws unless the page that comes has as many rows as was told.
  void CheckRows(const parquet::DataPageStats& stats) const;
  Status NextPage();
  Status SkipInPage(int64_t rows);

  DataPages pages_;  // calls back to this, which therefore stays where it is
  PageValues* values_;
  const std::vector<int64_t> page_rows_;  // of each page; empty: not told
  DefinitionLevels levels_;
  int64_t rows_left_ = 0;  // in the page
  const int64_t rows_;     // of the row group
  int64_t rows_total_;     // of those, not yet read or skipped
  int64_t skip_ = 0;       // rows still to be passed over, beyond the page
};

}  // namespace fastload
