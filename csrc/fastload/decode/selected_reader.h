// Readers of the rows of a column chunk that stay: they count these alone, and pass over
// the others.
#pragma once

#include <memory>

#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/fetch/page_selection.h"
#include "fastload/plan/row_selection.h"

namespace fastload {

// As MakeFixedReader and its like; `bits` is of the chunk's row group, and `pages` tells
// which pages the input lacks. Errors name stored rows. A row that does not stay is never
// one.
Result<std::unique_ptr<FixedReader>> MakeSelectedFixedReader(ChunkInput input,
                                                             const ColumnSpec* spec,
                                                             RowBits bits,
                                                             ChunkPages pages = {});
Result<std::unique_ptr<BytesReader>> MakeSelectedBytesReader(ChunkInput input,
                                                             const ColumnSpec* spec,
                                                             RowBits bits,
                                                             ChunkPages pages = {});
Result<std::unique_ptr<NestedReader>> MakeSelectedNestedReader(ChunkInput input,
                                                               const ColumnSpec* spec,
                                                               RowBits bits,
                                                               ChunkPages pages = {});

}  // namespace fastload
