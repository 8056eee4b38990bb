#include "fastload/row_order.h"

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

void Invert(int64_t rows, RowOrder* order) {
  order->outputs.assign(static_cast<size_t>(rows), RowOrder::kNone);
  order->repeats.clear();
  for (uint32_t output = 0; output < order->rows.size(); ++output) {
    uint32_t& first = order->outputs[order->rows[output]];
    if (first == RowOrder::kNone) {
      first = output;
    } else {
      order->repeats.push_back({first, output});
    }
  }
}

}  // namespace fastload
