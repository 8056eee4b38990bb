// A walk over the levels of one column chunk of lists, page after page, row by row.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/lists/list_assembler.h"
#include "fastload/decode/lists/nested_levels.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/pages/data_pages.h"

namespace fastload {

// A cursor over the rows of a column chunk of lists. Lets exceptions of libparquet pass;
// callers use CatchParquet.
class NestedCursor {
 public:
  // `values` is borrowed, and outlives the cursor. `row_length` is the likely number of
  // elements of a row; 0: unknown. `present` is the definition level of a value:
  // ListThresholds::max_definition.
  NestedCursor(ChunkInput input, PageValues* values, int64_t row_length, int present);

  // Skips `rows` rows when the next rows are read. Whole pages whose headers state their
  // rows (V2 pages) are not decompressed.
  Status Skip(int64_t rows);

  // Adds the next `rows` rows to `assembler`, which has begun, and completes them there.
  Status Read(int64_t rows, ListAssembler* assembler);

  // Goes to the next row. The caller will read `rows` rows to their ends through Next.
  Status Begin(int64_t rows);

  // Returns the next levels of one page: the rest of the row that has begun, and at most
  // `rows` rows that begin in the page. Returns no levels if `rows` is 0 and the last row
  // is complete. The caller must take the span's values from the PageValues before the
  // next call.
  Result<LevelSpan> Next(int64_t rows);

  int64_t page() const { return pages_.page(); }

  // Adds the row of the row group to the error of one level of `span`, which Next(rows)
  // returned last. Returns any other error unchanged.
  Status LevelIn(const LevelSpan& span, int64_t rows, const Status& status) const;

 private:
  // Does the same as Next, but reads `rows` again after each page, because skipping a
  // page lowers `rows` when it refers to skip_.
  Result<LevelSpan> NextOf(const int64_t& rows);
  // Loads the next page. Returns false at the end of the chunk.
  Result<bool> NextPage();
  bool PassOver(const parquet::DataPageStats& stats);
  Status EndPage();
  Status DropSkipped();

  int max_definition_;
  DataPages pages_;  // has a callback to this cursor, which therefore must not move
  PageValues* values_;
  const std::vector<int64_t> known_page_rows_;  // rows of each page; empty: unknown
  NestedLevels levels_;
  const int64_t rows_;   // rows of the row group
  int64_t rows_left_;    // rows of the row group not yet read or skipped
  int64_t levels_left_;  // levels of pages not yet loaded, by the footer
  int64_t skip_ = 0;     // rows still to be skipped
  // True if a row has begun, and the next page may hold more of the row.
  bool open_ = false;
  bool page_ends_rows_ = false;  // true for a V2 page
  int64_t page_rows_ = -1;       // rows of the page by its header; -1: unreliable
  int64_t page_starts_ = 0;      // rows that have begun in the page
};

}  // namespace fastload
