// Which pages of a column chunk are read: those with a row that stays.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/fetch/fetch.h"
#include "fastload/plan/row_selection.h"
#include "fastload/source/file.h"
#include "fastload/source/page_index.h"

namespace fastload {

// Neighbouring pages that are not read.
struct OmittedPages {
  int64_t row = 0;  // their first, of the row group
  int64_t rows = 0;
  int64_t page = 0;  // their first, of the column chunk
  int64_t pages = 0;
};

// What is read of a column chunk.
struct ChunkPages {
  std::vector<ByteRange> ranges;  // in order
  std::vector<OmittedPages> omitted;
  // Rows of each page that is read, where some are omitted.
  std::vector<int64_t> page_rows;
};

// Holes of up to `hole_bytes` are read along. Pages that do not lie one after the other
// in the chunk and in its rows: all of it is read.
ChunkPages PickPages(const std::vector<PageExtent>& pages, ByteRange chunk, RowBits bits,
                     int64_t hole_bytes);

// The pages of a column chunk to read; all of it where the file has no offset index,
// which it reads. Where there is one, pages of lists begin with a row: the format asks
// for that. `indexes` is what that is read from; null: the file.
Result<ChunkPages> SelectPages(const FetchContext& context, int32_t file,
                               int32_t row_group, int32_t leaf, ByteRange chunk,
                               RowBits bits, const File* indexes = nullptr);

// Whether SelectPages would read it.
bool SelectsPages(ByteRange chunk, RowBits bits);

}  // namespace fastload
