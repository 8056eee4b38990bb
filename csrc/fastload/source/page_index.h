// The pages of a column chunk, as the page index or the headers of the pages tell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/file.h"

namespace fastload {

// A data page in the offset index.
struct PageExtent {
  int64_t offset = 0;  // offset of the page's header in the file
  int64_t bytes = 0;
  int64_t row = 0;  // the page's first row, in the row group
};

// The data pages of a column chunk; empty where the file has no offset index or the
// column has lists.
struct PageExtents {
  std::vector<PageExtent> pages;
  int64_t read_bytes = 0;
};

Result<PageExtents> ReadPageExtents(const FileSpec& spec, const File& file,
                                    int32_t row_group, int32_t leaf);

// Finds the data pages of a column chunk of a file without a page index. Reads the
// headers of the chunk's pages, and decompresses no page. Returns no pages where headers
// don't tell the rows of each page: for lists in pages of version 1, and where the counts
// of the headers are not those of the footer.
Result<PageExtents> WalkPages(const FileSpec& spec, const File& file, int32_t row_group,
                              int32_t leaf, ByteRange chunk);

// Returns the ranges of the page index of a column chunk: of the offset index, and with
// `bounds` of the column index too. Returns no ranges where the file has no page index.
Result<std::vector<ByteRange>> IndexRanges(const FileSpec& spec, int32_t row_group,
                                           int32_t leaf, bool bounds);

// The bounds of the values of each data page of a column chunk, in order; empty where the
// file has no bounds, or bounds that contradict one another.
struct PageBounds {
  std::vector<int64_t> first_rows;   // first row of each page in the row group
  std::vector<bool> null_pages;      // pages that contain nulls alone
  std::vector<int64_t> null_counts;  // empty: unknown
  // Encoded as the format stores single values; bounds of long strings may be cut.
  std::vector<std::string> minima;
  std::vector<std::string> maxima;
};

Result<PageBounds> ReadPageBounds(const FileSpec& spec, const File& file,
                                  int32_t row_group, int32_t leaf);

}  // namespace fastload
