// Selected rows of lists that stay in memory from one pass to the next.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/values/kept_rows.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Returns true if the rows of a column of lists can be kept. Fills of null lists count
// against a budget when they are read, and are not kept.
bool CanKeepLists(const ColumnSpec& spec);

// Returns a reader of kept rows of a column.
std::unique_ptr<NestedReader> ReadKeptLists(KeptSelections* kept, const ColumnSpec& spec,
                                            std::shared_ptr<const KeptRows> rows);

// Does for rows of lists what KeptSelections::RecordBytes does for bytes.
std::unique_ptr<NestedReader> RecordLists(KeptSelections* kept,
                                          const KeptSelections::Key& key, int64_t rows,
                                          int64_t most_bytes, const ColumnSpec& spec,
                                          std::unique_ptr<NestedReader> reader);

}  // namespace fastload
