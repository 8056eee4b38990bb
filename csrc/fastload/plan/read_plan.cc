#include "fastload/plan/read_plan.h"

#include <algorithm>

namespace fastload {

int64_t ReadPlan::batches() const {
  if (batch_edges.empty()) return (rows + batch_rows - 1) / batch_rows;
  return (static_cast<int64_t>(batch_edges.size()) - 1) / lanes();
}

int64_t ReadPlan::FirstRow(int64_t batch, int64_t lane) const {
  if (batch_edges.empty()) return std::min(rows, batch * batch_rows);
  return batch_edges[static_cast<size_t>(batch * lanes() + lane)];
}

}  // namespace fastload
