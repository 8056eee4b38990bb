// What a file tells of the values of a column before they are read.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/filter/value_test.h"
#include "fastload/plan/columns.h"
#include "fastload/source/file.h"
#include "fastload/source/page_index.h"

namespace fastload {

// Of a column chunk, or of the rows of a file that lacks the column. `spec` is of a dtype
// with keys. Throws what libparquet throws.
Result<KnownValues> KnownOfChunk(const FileSpec& file, int32_t file_index,
                                 int32_t row_group, const ColumnSpec& spec);

// Of each page of a column chunk of that file.
std::vector<KnownValues> KnownOfPages(const FileSpec& file, int32_t file_index,
                                      const ColumnSpec& spec, const PageBounds& bounds);

}  // namespace fastload
