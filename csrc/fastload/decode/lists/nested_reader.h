// A reader of one column chunk whose leaf is in lists, front to back.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/status.h"
#include "fastload/decode/lists/nested_rows.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/plan/columns.h"

namespace fastload {

// A reader of rows of lists. Not thread-safe; may move between threads.
class NestedReader {
 public:
  // `spec` is borrowed, and outlives the reader.
  static Result<std::unique_ptr<NestedReader>> Make(ChunkInput input,
                                                    const ColumnSpec* spec);
  virtual ~NestedReader() = default;

  // Skips `rows` rows.
  virtual Status Skip(int64_t rows) = 0;

  // Appends `rows` rows to `out`, which must be new, or filled by readers of the same
  // column. If fewer rows are left, returns ErrorKind::kCorruptFile. The error of one
  // element or list (a null, or a value that does not fit the dtype) carries its row of
  // the row group (RowOf).
  virtual Status Read(int64_t rows, NestedRows* out, bool valid) = 0;

  // Returns the index of the data page being read, for the location of an error.
  virtual int64_t page() const = 0;
};

}  // namespace fastload
