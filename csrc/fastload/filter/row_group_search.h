// The rows of one row group that pass a filter.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/counters.h"
#include "fastload/base/memory.h"
#include "fastload/base/recycling_pool.h"
#include "fastload/base/status.h"
#include "fastload/fetch/file_table.h"
#include "fastload/filter/row_filter.h"
#include "fastload/plan/columns.h"
#include "fastload/source/file.h"

namespace fastload {

struct FoundRows {
  int64_t count = 0;
  // A bit a row, the lowest of a word first; empty: all pass, or none.
  std::vector<uint64_t> bits;
};

// What searches have in common. All of it is borrowed.
struct SearchContext {
  FileTable* files;
  const std::vector<ColumnSpec>* columns;
  const RowFilter* filter;
  BlockPool* fetches;
  RecyclingPool* pool;  // of decompressed pages and dictionaries
  Counters* counters;
};

// Looks first at what footers and page indexes tell, and decodes only pages of which that
// leaves open which rows pass. Reads and decodes on the calling thread. Errors name file,
// row group and column.
Result<FoundRows> SearchRowGroup(const SearchContext& context, RowGroupId row_group);

}  // namespace fastload
