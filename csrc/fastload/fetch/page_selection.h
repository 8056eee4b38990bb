// The selection of pages: a column chunk's pages that contain a selected row.
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
  int64_t row = 0;  // first row of the pages, in the row group
  int64_t rows = 0;
  int64_t page = 0;  // index of the first page in the column chunk
  int64_t pages = 0;
};

// The parts of a column chunk to read.
struct ChunkPages {
  std::vector<ByteRange> ranges;  // in order
  std::vector<OmittedPages> omitted;
  // The rows of each page that is read; empty if the whole chunk is read.
  std::vector<int64_t> page_rows;
  // True if the chunk's pages can be told apart, so that a read can leave out the
  // dictionary page.
  bool told_apart = false;
  bool lacks_dictionary = false;  // the dictionary page is left out
};

// Picks the pages that contain selected rows. Holes of up to `hole_bytes` bytes are read
// along. If the pages do not follow one another, in the chunk and in its rows, the whole
// chunk is read. With `has_dictionary`, the caller has the dictionary, and the dictionary
// page is left out.
ChunkPages PickPages(const std::vector<PageExtent>& pages, ByteRange chunk, RowBits bits,
                     int64_t hole_bytes, bool has_dictionary = false);

// Reads the file's offset index and picks the pages of a column chunk to read; the whole
// chunk if the file has no offset index. With an offset index, each page of lists begins
// with a row, as the format demands. `indexes` is the file from which the index is read;
// null: the file itself. `has_dictionary` is that of PickPages.
Result<ChunkPages> SelectPages(const FetchContext& context, int32_t file,
                               int32_t row_group, int32_t leaf, ByteRange chunk,
                               RowBits bits, const File* indexes = nullptr,
                               bool has_dictionary = false);

// Returns true if SelectPages would read the offset index.
bool SelectsPages(const FetchContext& context, ByteRange chunk, RowBits bits);

}  // namespace fastload
