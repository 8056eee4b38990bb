#include "fastload/collate/row_order.h"

namespace fastload {

RowOrder::Rows RowsOf(const Shuffle& shuffle, std::span<const Take> takes) {
  int64_t count = 0;
  for (const Take& take : takes) count += take.stop - take.start;
  RowOrder::Rows rows;
  rows.reserve(static_cast<size_t>(count));
  for (const Take& take : takes) {
    rows.insert(rows.end(), shuffle.rows.begin() + take.start,
                shuffle.rows.begin() + take.stop);
  }
  return rows;
}

void FindOutputs(const Shuffle& shuffle, std::span<const Take> takes, RowOrder* order) {
  order->outputs.assign(shuffle.rows.size(), RowOrder::kNone);
  order->repeats.clear();
  uint32_t output = 0;
  for (const Take& take : takes) {
    for (int64_t position = take.start; position < take.stop; ++position, ++output) {
      uint32_t& first = order->outputs[shuffle.rows[static_cast<size_t>(position)]];
      if (first == RowOrder::kNone) {
        first = output;
      } else {
        order->repeats.push_back({first, output});
      }
    }
  }
}

}  // namespace fastload
