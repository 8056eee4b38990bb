// The rows of neighbouring columns of a stack of a shuffled window.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fastload/base/memory.h"
#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/collate/window_codes.h"
#include "fastload/collate/window_runs.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Neighbouring columns of a stack after decoding. The dictionary codes of a row lie side
// by side in one record, so that one cache line has a row of all columns. Columns of
// plain values, and columns whose dictionaries overflow the codes, are stored separately
// in `values`. Borrows the window and the scratch memory; all pointers are into scratch
// memory.
class StackRows {
 public:
  // The rows read at once; the records of a block stay in the L1 cache.
  static constexpr int64_t kBlockRows = 256;
  // The most bytes of a row, over records and values.
  static constexpr int64_t kMostRowBytes = 64;

  struct Column {
    const ColumnSpec* spec;
    int64_t code_bytes;  // 0: plain values
  };
  // Allocates the memory of columns whose elements have `item` bytes.
  static Result<StackRows> Make(const Window& window, int64_t item,
                                std::span<const Column> columns, Scratch* scratch);

  size_t columns() const { return lanes_.size(); }
  // Returns the bytes of the elements of a row, side by side.
  int64_t row_bytes() const { return item_ * static_cast<int64_t>(lanes_.size()); }

  // Announces that the column's next rows come from `reader`.
  Status Begin(size_t column, FixedReader* reader);
  // Reads the column's window rows [first, first + rows), at most kBlockRows.
  Status Read(size_t column, FixedReader* reader, int64_t first, int64_t rows);

  // Copies `rows` output rows of the run, from row number `from` on, to `out`, packed.
  void Gather(const RowRun& run, int64_t from, int64_t rows, uint8_t* out) const;

 private:
  struct Lane {
    int64_t at = 0;    // offset of the column's code in a record
    int64_t base = 0;  // code of the dictionary's first entry; -1: rows are values
    std::optional<CodeTable> table;  // column of codes
    uint8_t* values = nullptr;       // by row; column of values
    std::shared_ptr<Block> memory;   // owns `values` of a column that had codes before
  };

  explicit StackRows(const Window& window, int64_t item)
      : window_(&window), item_(item) {}
  // Converts the first `rows` rows of a column from codes to values.
  Status TurnToValues(const CodeTable& table, int64_t rows, Lane* lane);

  const Window* window_;
  int64_t item_;
  int64_t record_bytes_ = 0;    // 0: no column has codes
  std::vector<Lane> lanes_;     // one lane for each column
  uint8_t* records_ = nullptr;  // by row
  uint8_t* codes_ = nullptr;    // of one column of a block
};

}  // namespace fastload
