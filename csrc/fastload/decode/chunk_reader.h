// Factories of readers of one flat column chunk (maximum repetition level 0), or of one
// column chunk of fixed-size lists.
#pragma once

#include <memory>

#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Make a reader of the column chunk. `spec` is borrowed, and outlives the reader.
Result<std::unique_ptr<FixedReader>> MakeFixedReader(ChunkInput input,
                                                     const ColumnSpec* spec);
Result<std::unique_ptr<BytesReader>> MakeBytesReader(ChunkInput input,
                                                     const ColumnSpec* spec);

}  // namespace fastload
