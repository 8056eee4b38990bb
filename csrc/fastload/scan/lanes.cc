#include "fastload/scan/lanes.h"

#include <algorithm>

namespace fastload {

Lanes::Lanes(const ReadPlan* plan) : plan_(plan) {
  const auto windows = static_cast<size_t>(plan->windows());
  const auto lanes = static_cast<size_t>(plan->lanes());
  before_.assign(windows, -1);
  after_.assign(windows, -1);
  lane_rows_.assign(lanes, 0);
  std::vector<int64_t> latest(lanes, -1);
  for (size_t w = 0; w < windows; ++w) {
    const auto window = static_cast<int64_t>(w);
    const auto lane = static_cast<size_t>(plan->LaneOf(window));
    int64_t rows = 0;
    for (auto t = plan->first_take[w]; t < plan->first_take[w + 1]; ++t) {
      const Take& take = plan->takes[static_cast<size_t>(t)];
      rows += take.stop - take.start;
    }
    first_.push_back(lane_rows_[lane]);
    rows_.push_back(rows);
    lane_rows_[lane] += rows;
    before_[w] = latest[lane];
    if (latest[lane] >= 0) after_[static_cast<size_t>(latest[lane])] = window;
    latest[lane] = window;
  }
  if (lanes > 1) FindEdges();
  if (plan->packed()) CountItems();
}

void Lanes::FindEdges() {
  const auto windows = static_cast<size_t>(plan_->windows());
  const auto lanes = static_cast<size_t>(plan_->lanes());
  const int64_t batches = plan_->batches();
  edges_.resize(lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    int64_t rows = 0;
    edges_[lane].push_back(0);
    for (int64_t batch = 0; batch < batches; ++batch) {
      const size_t part = static_cast<size_t>(batch) * lanes + lane;
      rows += plan_->batch_edges[part + 1] - plan_->batch_edges[part];
      edges_[lane].push_back(rows);
    }
  }
  last_window_.assign(static_cast<size_t>(batches), 0);
  for (size_t w = 0; w < windows; ++w) {
    const int64_t lane = plan_->LaneOf(static_cast<int64_t>(w));
    const int64_t last = BatchOf(lane, first_[w] + rows_[w] - 1);
    for (int64_t batch = BatchOf(lane, first_[w]); batch <= last; ++batch) {
      last_window_[static_cast<size_t>(batch)] = static_cast<int64_t>(w);
    }
  }
}

void Lanes::CountItems() {
  const auto windows = static_cast<size_t>(plan_->windows());
  const auto lanes = static_cast<size_t>(plan_->lanes());
  std::vector<int64_t> items(lanes);
  item_edges_.resize(lanes);
  for (size_t w = 0; w < windows; ++w) {
    const auto lane = static_cast<size_t>(plan_->LaneOf(static_cast<int64_t>(w)));
    std::vector<int64_t>& edges = item_edges_[lane];
    items_.push_back(items[lane]);
    const auto first = static_cast<size_t>(
        plan_->takes[static_cast<size_t>(plan_->first_take[w])].start);
    for (int64_t i = 0; i < rows_[w]; ++i) {
      // A batch may take nothing of a lane.
      while (FirstOf(static_cast<int64_t>(lane), std::ssize(edges)) == first_[w] + i) {
        edges.push_back(items[lane]);
      }
      items[lane] += plan_->segments[first + static_cast<size_t>(i)].size;
    }
  }
  const auto edges = static_cast<size_t>(plan_->batches()) + 1;
  for (size_t lane = 0; lane < lanes; ++lane) {
    item_edges_[lane].resize(edges, items[lane]);
  }
}

int64_t Lanes::BatchOf(int64_t lane, int64_t row) const {
  if (edges_.empty() && plan_->batch_edges.empty()) return row / plan_->batch_rows;
  const auto& edges =
      edges_.empty() ? plan_->batch_edges : edges_[static_cast<size_t>(lane)];
  return std::ranges::upper_bound(edges, row) - edges.begin() - 1;
}

int64_t Lanes::FirstOf(int64_t lane, int64_t batch) const {
  if (edges_.empty()) return plan_->FirstRow(batch);
  return edges_[static_cast<size_t>(lane)][static_cast<size_t>(batch)];
}

int64_t Lanes::RealRows(int64_t lane) const {
  const auto l = static_cast<size_t>(lane);
  return lane_rows_[l] - (edges_.empty() ? plan_->padding : plan_->lane_padding[l]);
}

int64_t Lanes::LastWindow(int64_t batch) const {
  if (!last_window_.empty()) return last_window_[static_cast<size_t>(batch)];
  const int64_t last = plan_->FirstRow(batch + 1) - 1;
  return std::ranges::upper_bound(first_, last) - first_.begin() - 1;
}

int64_t Lanes::Items(int64_t batch) const {
  const auto b = static_cast<size_t>(batch);
  int64_t items = 0;
  for (const auto& edges : item_edges_) items += edges[b + 1] - edges[b];
  return items;
}

int64_t Lanes::ItemsBefore(int64_t batch, int64_t window) const {
  const auto b = static_cast<size_t>(batch);
  const auto lane = static_cast<size_t>(plan_->LaneOf(window));
  int64_t items = 0;
  for (size_t before = 0; before < lane; ++before) {
    items += item_edges_[before][b + 1] - item_edges_[before][b];
  }
  // Earlier windows of the lane may have the batch's first elements of the lane.
  const int64_t in_lane = items_[static_cast<size_t>(window)] - item_edges_[lane][b];
  return items + std::max<int64_t>(0, in_lane);
}

}  // namespace fastload
