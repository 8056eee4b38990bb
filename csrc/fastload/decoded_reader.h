// Readers of a column of a block, which copy: nothing is decoded.
#pragma once

#include <memory>

#include "fastload/chunk_reader.h"
#include "fastload/columns.h"
#include "fastload/decoded_block.h"
#include "fastload/nested_reader.h"
#include "fastload/status.h"

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
