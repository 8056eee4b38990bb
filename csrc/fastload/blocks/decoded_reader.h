// Readers of a column of a block. They copy values, and decode nothing.
#pragma once

#include <memory>

#include "fastload/base/status.h"
#include "fastload/blocks/decoded_block.h"
#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Make a reader of a block's column. `spec` is borrowed, and outlives the reader. The
// bytes that a BytesReader and a NestedReader return live as long as the block. Return an
// error if the column has another type.
Result<std::unique_ptr<FixedReader>> MakeDecodedFixedReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec);
Result<std::unique_ptr<BytesReader>> MakeDecodedBytesReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec);
Result<std::unique_ptr<NestedReader>> MakeDecodedNestedReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec);

}  // namespace fastload
