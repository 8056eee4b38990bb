#include "fastload/scan/pass.h"

#include <algorithm>
#include <map>
#include <utility>

namespace fastload {
namespace {

std::set<std::pair<int64_t, int64_t>> GroupsOfSeveralLanes(const ReadPlan& plan) {
  std::set<std::pair<int64_t, int64_t>> shared;
  if (plan.lanes() == 1) return shared;
  std::map<std::pair<int64_t, int64_t>, int64_t> lanes;
  for (int64_t w = 0; w < plan.windows(); ++w) {
    const int64_t lane = plan.LaneOf(w);
    const auto window = static_cast<size_t>(w);
    for (auto p = plan.first_piece[window]; p < plan.first_piece[window + 1]; ++p) {
      const Piece& piece = plan.pieces[static_cast<size_t>(p)];
      const std::pair group(piece.file, piece.row_group);
      if (lanes.emplace(group, lane).first->second != lane) shared.insert(group);
    }
  }
  return shared;
}

}  // namespace

Pass::Pass(Dataset* dataset, Executor* cpu, FetchContext fetch, BlockPool* batch_pool,
           BlockPool* staging_pool, ReadPlan read_plan, ScanOptions scan_options,
           int64_t first_priority)
    : dataset(dataset),
      cpu(cpu),
      fetch(fetch),
      batch_pool(batch_pool),
      staging_pool(staging_pool),
      plan(std::move(read_plan)),
      options(std::move(scan_options)),
      first_priority(first_priority),
      batches(plan.batches()),
      lanes(&plan),
      shared_groups(GroupsOfSeveralLanes(plan)) {
  if (plan.orders.empty()) return;
  int64_t ordered = 0;
  for (size_t w = 0; w < static_cast<size_t>(plan.windows()); ++w) {
    first_ordered.push_back(ordered);
    for (auto p = plan.first_piece[w]; p < plan.first_piece[w + 1]; ++p) {
      const Piece& piece = plan.pieces[static_cast<size_t>(p)];
      ordered += piece.stop - piece.start;
    }
  }
}

int64_t Pass::BatchRows(int64_t batch) const {
  return plan.FirstRow(batch + 1) - plan.FirstRow(batch);
}

int64_t Pass::Priority(int64_t window, int32_t unit) const {
  const int64_t each = static_cast<int64_t>(dataset->units.size()) + 1;
  return first_priority + window * each + unit + 1;
}

FetchContext Pass::Fetch() const {
  FetchContext context = fetch;
  if (!begun) context.counters = &dataset->counters_ahead;
  return context;
}

}  // namespace fastload
