// The search of Bloom filters for the values that a filter of rows asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"
#include "fastload/filter/row_filter.h"
#include "fastload/filter/value_test.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/row_selection.h"
#include "fastload/source/file.h"

namespace fastload {

// Reads ranges of the searched file: fills the element of `bytes` of each range.
using SmallReads = std::function<Status(const std::vector<ByteRange>& ranges,
                                        std::vector<std::vector<uint8_t>>* bytes)>;

// Takes the values out of `known`, by column, that Bloom filters of the row group
// exclude. Reads only filters that may exclude every row, and only the needed blocks. A
// filter that is damaged or unknown excludes nothing. Throws the exceptions of
// libparquet.
Status ExcludeByBloomFilters(const FileSpec& file, int32_t file_index, int32_t row_group,
                             const std::vector<ColumnSpec>& columns,
                             const RowFilter& filter, const SmallReads& read,
                             std::vector<KnownValues>* known);

}  // namespace fastload
