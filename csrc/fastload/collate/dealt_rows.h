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

// Dictionary codes of a row lie side by side, in one record, so that a row of all columns
// is dealt out and gathered at once rather than value by value. Columns of values, and
// those that cease to be codes, lie apart. Borrows the window and the scratch, and what
// it got from that.
class DealtRows {
 public:
  // Rows that are read at once before they are dealt: their records stay in the L1 cache.
  static constexpr int64_t kBlockRows = 256;
  // Bytes that a row has in the slots at most, in records and values: what a bucket has
  // of them stays in a cache.
  static constexpr int64_t kMostRowBytes = 64;

  struct Column {
    const ColumnSpec* spec;
    int64_t code_bytes;  // 0: of values
  };
  // Elements have `item` bytes.
  static Result<DealtRows> Make(const Window& window, int64_t item,
                                std::span<const Column> columns, Scratch* scratch);

  size_t columns() const { return lanes_.size(); }
  // Of the elements of a row, side by side.
  int64_t row_bytes() const { return item_ * static_cast<int64_t>(lanes_.size()); }

  // The next rows of the column come from `reader`.
  Status Begin(size_t column, FixedReader* reader);
  // Reads the column's window rows [first, first + rows), at most kBlockRows, which Deal
  // then puts into their slots.
  Status Read(size_t column, FixedReader* reader, int64_t first, int64_t rows);
  void Deal(int64_t first, int64_t rows);

  // Copies `rows` output rows of the run, from the one numbered `from` on, to `out`, side
  // by side.
  void Gather(const SlotRun& run, int64_t from, int64_t rows, uint8_t* out) const;

 private:
  struct Lane {
    int64_t at = 0;    // of its code in a record
    int64_t base = 0;  // code of the dictionary's first entry; -1: rows are values
    std::optional<CodeTable> table;  // of a column of codes
    uint8_t* values = nullptr;       // by slot; of a column of values
    std::shared_ptr<Block> memory;   // of `values`, if it was one of codes
  };

  explicit DealtRows(const Window& window, int64_t item)
      : window_(&window), item_(item) {}
  // Window rows before `first`, and `read` rows of the block after them, have codes:
  // makes them values.
  Status TurnToValues(Lane* lane, int64_t first, int64_t read);
  const uint32_t* SlotsFrom(int64_t row) const;

  const Window* window_;
  int64_t item_;
  int64_t record_bytes_ = 0;    // 0: no column has codes
  std::vector<Lane> lanes_;     // of each column
  uint8_t* records_ = nullptr;  // by slot
  uint8_t* block_ = nullptr;    // records of a block
  uint8_t* items_ = nullptr;    // of one column of a block: codes or values
};

}  // namespace fastload
