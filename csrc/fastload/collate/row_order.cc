#include "fastload/collate/row_order.h"

#include <algorithm>

namespace fastload {

RowOrder::Rows RowsOf(const Shuffle& shuffle, std::span<const Take> takes) {
  const std::vector<uint32_t> row_at = Permutation(shuffle);
  int64_t count = 0;
  for (const Take& take : takes) count += take.stop - take.start;
  RowOrder::Rows rows;
  rows.reserve(static_cast<size_t>(count));
  for (const Take& take : takes) {
    rows.insert(rows.end(), row_at.begin() + take.start, row_at.begin() + take.stop);
  }
  return rows;
}

void FindOutputs(const Shuffle& shuffle, std::span<const Take> takes, RowOrder* order) {
  // Goes by slot first, so that every step stays in a bucket, or in one open cache line
  // per bucket.
  RowOrder::Rows by_slot(static_cast<size_t>(shuffle.slot_count()), RowOrder::kNone);
  order->repeats.clear();
  uint32_t output = 0;
  for (const Take& take : takes) {
    for (int64_t position = take.start; position < take.stop;) {
      const auto above = std::ranges::upper_bound(shuffle.bucket_starts, position);
      const int64_t end = std::min<int64_t>(*above, take.stop);
      const int64_t bucket = above - shuffle.bucket_starts.begin() - 1;
      uint32_t* outputs = by_slot.data() + shuffle.SlotStart(bucket);
      for (; position < end; ++position, ++output) {
        uint32_t& first = outputs[shuffle.within[static_cast<size_t>(position)]];
        if (first == RowOrder::kNone) {
          first = output;
        } else {
          order->repeats.push_back({first, output});
        }
      }
    }
  }
  const size_t rows = shuffle.within.size();
  order->outputs.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    order->outputs[row] = by_slot[shuffle.slots.empty() ? row : shuffle.slots[row]];
  }
}

}  // namespace fastload
