#include "fastload/plan/read_plan.h"

#include <algorithm>

namespace fastload {

int64_t ReadPlan::batches() const {
  if (batch_edges.empty()) return (rows + batch_rows - 1) / batch_rows;
  return static_cast<int64_t>(batch_edges.size()) - 1;
}

int64_t ReadPlan::FirstRow(int64_t batch) const {
  if (batch_edges.empty()) return std::min(rows, batch * batch_rows);
  return batch_edges[static_cast<size_t>(batch)];
}

int64_t ReadPlan::BatchOf(int64_t row) const {
  if (batch_edges.empty()) return row / batch_rows;
  return std::ranges::upper_bound(batch_edges, row) - batch_edges.begin() - 1;
}

}  // namespace fastload
