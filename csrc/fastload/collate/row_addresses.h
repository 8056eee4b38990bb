// The addresses of a window's output rows, for rows that are copied one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/collate/window.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/unit.h"

namespace fastload {

// The addresses of a window's output rows in one slot.
class RowAddresses {
 public:
  RowAddresses(const std::vector<Part>& parts, const Layout::Slot& slot);

  uint8_t* operator[](uint32_t output) const {
    if (output < first_rows_) return parts_[0] + output * stride_;
    const uint32_t after = output - first_rows_;
    return parts_[1 + after / part_rows_] + after % part_rows_ * stride_;
  }

 private:
  std::vector<uint8_t*> parts_;
  int64_t stride_;
  uint32_t first_rows_;
  uint32_t part_rows_;
};

// The addresses of the rows of each output of a unit.
struct UnitAddresses {
  UnitAddresses(const std::vector<Part>& parts, const Unit& unit);

  std::vector<RowAddresses> rows;
  std::vector<RowAddresses> valid;
  std::vector<RowAddresses> pads;
  std::vector<RowAddresses> lengths;
};

// The output rows of consecutive rows of a window: the first output row that takes each
// row, or RowOrder::kNone.
class OutputRows {
 public:
  OutputRows(const Window& window, int64_t most_rows);

  // Returns the output rows of window rows [first, first + rows), at most `most_rows`,
  // valid until the next call.
  const uint32_t* Get(int64_t first, int64_t rows);

 private:
  const uint32_t* order_;
  std::vector<uint32_t> in_order_;
};

// Copies `count` packed rows of `width` bytes to the addresses of the output rows
// `outputs`, past the caches; skips rows that no output takes. Call StreamFence before
// another thread reads the copies.
void CopyRows(const uint8_t* rows, int64_t width, const uint32_t* outputs, int64_t count,
              const RowAddresses& addresses);

}  // namespace fastload
