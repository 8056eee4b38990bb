// The values of a column that are possible by a file's metadata, before values are read.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/filter/value_test.h"
#include "fastload/plan/columns.h"
#include "fastload/source/file.h"
#include "fastload/source/page_index.h"

namespace fastload {

// Returns what is known of a column chunk, or of the rows of a file that lacks the
// column. `spec` has a dtype with keys. Throws the exceptions of libparquet.
Result<KnownValues> KnownOfChunk(const FileSpec& file, int32_t file_index,
                                 int32_t row_group, const ColumnSpec& spec);

// Returns true if the index of a chunk's pages and the null count of its statistics
// contradict each other. The row group has `rows` rows.
bool Contradict(const KnownValues& chunk, const PageBounds& bounds, int64_t rows);

// Returns what is known of each page of a column chunk.
std::vector<KnownValues> KnownOfPages(const FileSpec& file, int32_t file_index,
                                      const ColumnSpec& spec, const PageBounds& bounds);

}  // namespace fastload
