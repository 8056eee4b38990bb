// The pages of a column chunk of a file without a page index, found by their headers.
#pragma once

#include <cstdint>

#include "fastload/source/page_index.h"

namespace fastload {

// Reads the headers of the chunk's pages, and decompresses no page. Returns no pages
// where headers don't tell the rows of each page: for lists in pages of version 1, and
// where the counts of the headers are not those of the footer.
Result<PageExtents> WalkPages(const FileSpec& spec, const File& file, int32_t row_group,
                              int32_t leaf, ByteRange chunk);

}  // namespace fastload
