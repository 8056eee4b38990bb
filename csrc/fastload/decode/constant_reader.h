// Readers of a column that a file lacks: every row has the same value, or is null. These
// readers need no column chunk, and never run out of rows.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Make a reader whose every row is spec->Constant(file). `spec` is borrowed, and outlives
// the reader. If the constant is null and the spec has no fill, reading is an
// ErrorKind::kNullValue. Lists of a fixed size are null, which is an
// ErrorKind::kNullValue unless spec->null_lists.
std::unique_ptr<FixedReader> MakeConstantFixedReader(const ColumnSpec* spec,
                                                     int32_t file);
std::unique_ptr<BytesReader> MakeConstantBytesReader(const ColumnSpec* spec,
                                                     int32_t file);

// Makes a reader whose outermost lists are all null, which is an ErrorKind::kNullValue
// unless spec->null_lists.
std::unique_ptr<NestedReader> MakeNullNestedReader(const ColumnSpec* spec);

}  // namespace fastload
