// The order of a shuffled window row by row, for columns whose rows are copied one by one
// instead of being dealt to buckets.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fastload/base/huge_pages.h"
#include "fastload/collate/shuffle.h"
#include "fastload/plan/read_plan.h"

namespace fastload {

// Output rows are counted from the window's first.
struct RowOrder {
  using Rows = std::vector<uint32_t, HugeAllocator<uint32_t>>;
  struct Repeat {
    uint32_t from;
    uint32_t to;
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Row of the window that each output row takes.
  Rows rows;
  // The first output row that takes each row of the window, or kNone.
  Rows outputs;
  // Output rows that take what an earlier one has taken.
  std::vector<Repeat> repeats;
};

// The rows that each position of `takes` has in `shuffle`.
RowOrder::Rows RowsOf(const Shuffle& shuffle, std::span<const Take> takes);

// Fills order->outputs and order->repeats.
void FindOutputs(const Shuffle& shuffle, std::span<const Take> takes, RowOrder* order);

}  // namespace fastload
