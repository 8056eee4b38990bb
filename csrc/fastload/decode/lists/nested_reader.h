// Reader of one column chunk whose leaf lies in lists, front to back.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/status.h"
#include "fastload/decode/lists/nested_rows.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Not thread-safe; may move between threads.
class NestedReader {
 public:
  // `spec` is borrowed and outlives the reader.
  static Result<std::unique_ptr<NestedReader>> Make(ChunkInput input,
                                                    const ColumnSpec* spec);
  virtual ~NestedReader() = default;

  // Passes over `rows` rows.
  virtual Status Skip(int64_t rows) = 0;

  // Appends `rows` rows to `out`, which is as it was made or as this or another reader of
  // the same column left it. Fewer rows left is an ErrorKind::kCorruptFile. The error of
  // one element or list, be it null or not of the dtype, has its row of the row group
  // (RowOf).
  virtual Status Read(int64_t rows, NestedRows* out, bool valid) = 0;

  // Index of the data page being read, for Place.
  virtual int64_t page() const = 0;
};

}  // namespace fastload
