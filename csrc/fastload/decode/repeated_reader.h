// Readers that return each row as often as it has copies: they count copies of rows.
#pragma once

#include <functional>
#include <memory>

#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/row_copies.h"
#include "fastload/plan/row_selection.h"

namespace fastload {

// The rows that a repeated reader takes from its base.
struct RepeatedRows {
  RowCopies copies;
  RowBits bits;  // the rows that the base returns, for the rows of errors
  // True if values of rows without copies can be decoded without an error, except that
  // they may be null. Readers of lists don't ask.
  bool decodes_gaps = true;
  bool nullable = false;  // the column may hold nulls
};

// Makes the base, which reads the given spec.
template <typename Reader>
using MakeBase = std::function<Result<std::unique_ptr<Reader>>(const ColumnSpec* spec)>;

// Make readers of the copies of the rows that the base returns. A row without copies
// never causes an error. If each row has one copy, the base is returned. `spec` is
// borrowed, and outlives the reader.
Result<std::unique_ptr<FixedReader>> MakeRepeatedFixedReader(
    const RepeatedRows& rows, const ColumnSpec* spec, const MakeBase<FixedReader>& make);
Result<std::unique_ptr<BytesReader>> MakeRepeatedBytesReader(
    const RepeatedRows& rows, const ColumnSpec* spec, const MakeBase<BytesReader>& make);
Result<std::unique_ptr<NestedReader>> MakeRepeatedNestedReader(
    const RepeatedRows& rows, const ColumnSpec* spec, const MakeBase<NestedReader>& make);

}  // namespace fastload
