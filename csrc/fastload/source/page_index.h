// What a file's page index tells of the pages of a flat column chunk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/file.h"

namespace fastload {

// A data page, as the offset index has it.
struct PageExtent {
  int64_t offset = 0;  // of its header in the file
  int64_t bytes = 0;
  int64_t row = 0;  // its first, of the row group
};

// The data pages of a column chunk; none where the file does not tell, as of lists.
struct PageExtents {
  std::vector<PageExtent> pages;
  int64_t read_bytes = 0;
};

Result<PageExtents> ReadPageExtents(const FileSpec& spec, const File& file,
                                    int32_t row_group, int32_t leaf);

// Where the page index of a column chunk lies, of its data pages and with `bounds` of
// their values too; none where the file has none.
Result<std::vector<ByteRange>> IndexRanges(const FileSpec& spec, int32_t row_group,
                                           int32_t leaf, bool bounds);

// Bounds of the values of each data page of a column chunk, in order; no pages where the
// file does not tell.
struct PageBounds {
  std::vector<int64_t> first_rows;   // of the row group
  std::vector<bool> null_pages;      // that hold nothing but nulls
  std::vector<int64_t> null_counts;  // empty: unknown
  // As the format stores single values; bounds of long strings may be cut.
  std::vector<std::string> minima;
  std::vector<std::string> maxima;
};

Result<PageBounds> ReadPageBounds(const FileSpec& spec, const File& file,
                                  int32_t row_group, int32_t leaf);

}  // namespace fastload
