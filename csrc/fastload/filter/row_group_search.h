// The search for the rows of one row group that pass a filter.
#pragma once

#include <cstdint>
#include <vector>

#include "arrow/memory_pool.h"
#include "fastload/base/counters.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"
#include "fastload/fetch/byte_stream.h"
#include "fastload/fetch/file_table.h"
#include "fastload/filter/row_filter.h"
#include "fastload/plan/columns.h"
#include "fastload/source/file.h"

namespace fastload {

struct FoundRows {
  int64_t count = 0;
  // One bit per row, the lowest bit of a word first; empty: all rows pass, or none.
  std::vector<uint64_t> bits;
};

// The objects that searches share. All are borrowed.
struct SearchContext {
  FileTable* files;
  const std::vector<ColumnSpec>* columns;
  const RowFilter* filter;
  BlockPool* fetches;
  arrow::MemoryPool* pool;  // memory of decompressed pages and dictionaries
  Counters* counters;
  int64_t page_hole_bytes = kPageHoleBytes;
  // False: all rows of an undecided row group count as found, and no column is read.
  bool decodes = true;
};

// Looks at footers, Bloom filters and page indexes first, and decodes only pages whose
// rows are still undecided. Reads and decodes on the calling thread. Errors name file,
// row group and column.
Result<FoundRows> SearchRowGroup(const SearchContext& context, RowGroupId row_group);

}  // namespace fastload
