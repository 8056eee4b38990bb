// The rows of neighbouring columns of a stack in the slots of a window.
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

// Neighbouring columns of a stack after dealing. The dictionary codes of a row lie side
// by side in one record, so that a row of all columns is dealt and gathered at once
// rather than value by value. Columns of plain values, and columns whose dictionaries
// overflow the codes, are stored separately in `values`. Borrows the window and the
// scratch memory; all pointers are into scratch memory.
class DealtRows {
 public:
  // The rows read at once before they are dealt; the records of a block stay in the L1
  // cache.
  static constexpr int64_t kBlockRows = 256;
  // The most bytes of a row in the slots, over records and values, so that a bucket's
  // bytes stay in a cache.
  static constexpr int64_t kMostRowBytes = 64;

  struct Column {
    const ColumnSpec* spec;
    int64_t code_bytes;  // 0: plain values
  };
  // Allocates the memory of columns whose elements have `item` bytes.
  static Result<DealtRows> Make(const Window& window, int64_t item,
                                std::span<const Column> columns, Scratch* scratch);

  size_t columns() const { return lanes_.size(); }
  // Returns the bytes of the elements of a row, side by side.
  int64_t row_bytes() const { return item_ * static_cast<int64_t>(lanes_.size()); }

  // Announces that the column's next rows come from `reader`.
  Status Begin(size_t column, FixedReader* reader);
  // Reads the column's window rows [first, first + rows), at most kBlockRows. Deal then
  // deals these rows to their slots.
  Status Read(size_t column, FixedReader* reader, int64_t first, int64_t rows);
  void Deal(int64_t first, int64_t rows);

  // Copies `rows` output rows of the run, from row number `from` on, to `out`, packed.
  void Gather(const SlotRun& run, int64_t from, int64_t rows, uint8_t* out) const;

 private:
  struct Lane {
    int64_t at = 0;    // offset of the column's code in a record
    int64_t base = 0;  // code of the dictionary's first entry; -1: rows are values
    std::optional<CodeTable> table;  // column of codes
    uint8_t* values = nullptr;       // by slot; column of values
    std::shared_ptr<Block> memory;   // owns `values` of a column that had codes before
  };

  explicit DealtRows(const Window& window, int64_t item)
      : window_(&window), item_(item) {}
  // Converts a column from codes to values: the window rows before `first`, and the
  // `read` rows of the block behind these rows.
  Status TurnToValues(Lane* lane, int64_t first, int64_t read);
  const uint32_t* SlotsFrom(int64_t row) const;

  const Window* window_;
  int64_t item_;
  int64_t record_bytes_ = 0;    // 0: no column has codes
  std::vector<Lane> lanes_;     // one lane for each column
  uint8_t* records_ = nullptr;  // by slot
  uint8_t* block_ = nullptr;    // records of one block
  uint8_t* items_ = nullptr;    // codes or values of one column of a block
};

}  // namespace fastload
