// Readers of a column of a block, which copy: nothing is decoded.
#pragma once

#include <memory>

#include "fastload/base/status.h"
#include "fastload/blocks/decoded_block.h"
#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {

// `spec` is borrowed and outlives the reader; what a BytesReader and a NestedReader show
// lives as long as the block. An error if the column is of another type.
Result<std::unique_ptr<FixedReader>> MakeDecodedFixedReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec);
Result<std::unique_ptr<BytesReader>> MakeDecodedBytesReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec);
Result<std::unique_ptr<NestedReader>> MakeDecodedNestedReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec);

}  // namespace fastload
