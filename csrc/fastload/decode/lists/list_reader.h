// A reader of one column chunk of fixed-size lists: embeddings.
#pragma once

#include <memory>

#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Makes a reader whose rows are the spec.list_size elements of each list, side by side.
// `spec` is borrowed, and outlives the reader; its depth is 0.
Result<std::unique_ptr<FixedReader>> MakeListReader(ChunkInput input,
                                                    const ColumnSpec* spec);

}  // namespace fastload
