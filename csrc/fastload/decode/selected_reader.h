// Readers of the selected rows of a column chunk: they count selected rows alone, and
// skip the other rows.
#pragma once

#include <memory>

#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/fetch/page_selection.h"
#include "fastload/plan/row_selection.h"

namespace fastload {

// Returns the column's spec for decoding rows that are not selected: a null is no error
// there. Can't be used where other values may be errors.
ColumnSpec FilledSpec(const ColumnSpec& spec);

// Returns true if values of rows that are not selected can be decoded without an error.
bool NeverFails(const ColumnSpec& spec, const ChunkInput& input);

// Make a reader like MakeFixedReader, MakeBytesReader and NestedReader::Make. `bits`
// selects rows of the chunk's row group, and `pages` describes the pages that the input
// lacks. Errors name stored rows. A row that is not selected never causes an error.
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
