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

// The order of a shuffled window. Output rows are counted from the window's first output
// row.
struct RowOrder {
  using Rows = std::vector<uint32_t, HugeAllocator<uint32_t>>;
  struct Repeat {
    uint32_t from;
    uint32_t to;
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // For each output row: the row of the window that the output row takes.
  Rows rows;
  // For each row of the window: the first output row that takes the row, or kNone.
  Rows outputs;
  // The output rows that take the same row as an earlier output row.
  std::vector<Repeat> repeats;
};

// Returns the row in `shuffle` of each position of `takes`.
RowOrder::Rows RowsOf(const Shuffle& shuffle, std::span<const Take> takes);

// Fills order->outputs and order->repeats.
void FindOutputs(const Shuffle& shuffle, std::span<const Take> takes, RowOrder* order);

}  // namespace fastload
