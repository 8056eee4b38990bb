// The addresses of a window's output rows, for rows that are copied one by one.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "fastload/collate/window.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/unit.h"

namespace fastload {

// Finds the part that an output row of a window lies in. Parts may differ in rows:
// batches by tokens do, and a lane's share of a batch may.
class PartFinder {
 public:
  // Borrows the parts, which must not be empty.
  explicit PartFinder(const std::vector<Part>& parts);

  struct Place {
    size_t part;
    uint32_t row;  // of the part
  };
  Place Find(uint32_t output) const {
    assert(output < first_.back());
    size_t part = near_[output >> shift_];
    while (output >= first_[part + 1]) ++part;
    return {part, output - first_[part]};
  }

 private:
  // The first output row of each part, then all output rows.
  std::vector<uint32_t> first_;
  // For each block of 2^shift_ output rows, the part of the block's first row. A block
  // has fewer rows than parts have on average, so that few parts begin in a block.
  std::vector<uint32_t> near_;
  int shift_ = 0;
};

// The addresses of a window's output rows in one slot.
class RowAddresses {
 public:
  // Borrows the finder.
  RowAddresses(const std::vector<Part>& parts, const Layout::Slot& slot,
               const PartFinder* finder);

  uint8_t* operator[](uint32_t output) const {
    const PartFinder::Place place = finder_->Find(output);
    return parts_[place.part] + place.row * stride_;
  }

 private:
  std::vector<uint8_t*> parts_;
  int64_t stride_;
  const PartFinder* finder_;
};

// The addresses of the rows of each output of a unit.
struct UnitAddresses {
  UnitAddresses(const std::vector<Part>& parts, const Unit& unit);
  UnitAddresses(const UnitAddresses&) = delete;  // the addresses borrow the finder

  PartFinder finder;
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
