#include "fastload/plan/row_numbers.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace fastload {

Result<RowNumbers> RowNumbers::Make(std::vector<int32_t> file,
                                    std::vector<int32_t> row_group,
                                    const std::vector<int64_t>& rows) {
  if (file.size() != rows.size() || row_group.size() != rows.size()) {
    return Status::Invalid("Expected a file and a row group for each of ", rows.size(),
                           " row counts, got ", file.size(), " and ", row_group.size());
  }
  RowNumbers numbers;
  numbers.file_ = std::move(file);
  numbers.row_group_ = std::move(row_group);
  numbers.starts_.push_back(0);
  for (const int64_t count : rows) {
    if (count < 0) {
      return Status::Invalid("Expected row counts of at least 0, got ", count);
    }
    numbers.starts_.push_back(numbers.starts_.back() + count);
  }
  return numbers;
}

Result<ReadPlan> RowNumbers::Plan(std::span<const int64_t> indices,
                                  const Selection& selection) const {
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int32_t>::max());
  if (indices.empty() || indices.size() > kMost) {
    return Status::Invalid("Expected 1 to ", kMost, " rows, got ", indices.size());
  }
  const auto bad = std::ranges::find_if(
      indices, [&](int64_t index) { return index < 0 || index >= rows(); });
  if (bad != indices.end()) {
    return Status::Invalid("Expected a row in [0, ", rows(), "), got ", *bad);
  }
  const auto count = static_cast<int64_t>(indices.size());
  ReadPlan plan{.batch_rows = count, .rows = count};
  plan.by_takes = true;
  const bool ascending =
      std::ranges::adjacent_find(indices, std::greater_equal{}) == indices.end();
  // The rows in ascending order, and where each is asked for; empty if `indices` ascend.
  std::vector<std::pair<int64_t, uint32_t>> sorted(ascending ? 0 : indices.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    sorted[i] = {indices[i], static_cast<uint32_t>(i)};
  }
  std::ranges::sort(sorted);
  plan.numbers.reserve(indices.size());
  std::vector<uint32_t> row_at(ascending ? 0 : indices.size());
  size_t group = 0;
  int64_t last = -1;
  SelectedRows walk(RowBits{});
  bool walks = false;
  int64_t walked = 0;  // selected rows that `walk` has skipped
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = ascending ? indices[i] : sorted[i].first;
    if (index != last) {
      if (plan.pieces.empty() || index >= starts_[group + 1]) {
        // Row groups without rows have the start of the next one.
        const auto above = std::upper_bound(starts_.begin(), starts_.end(), index);
        group = static_cast<size_t>(above - starts_.begin()) - 1;
        plan.pieces.push_back({.file = file_[group],
                               .row_group = row_group_[group],
                               .start = 0,
                               .stop = 0,
                               .numbers = static_cast<int64_t>(plan.numbers.size())});
        const RowBits selected = selection(file_[group], row_group_[group]);
        walks = !selected.all();
        walk = SelectedRows(selected);
        walked = 0;
      }
      int64_t number = index - starts_[group];
      if (walks) {
        walk.Skip(number - walked);
        walked = number;
        number = walk.row();
      }
      plan.numbers.push_back(number);
      ++plan.pieces.back().stop;
      last = index;
    }
    if (!ascending) {
      row_at[sorted[i].second] = static_cast<uint32_t>(plan.numbers.size()) - 1;
    }
  }
  plan.shuffled = !ascending;
  if (ascending) {
    plan.takes.push_back({0, count});
  } else {
    decltype(sorted)().swap(sorted);  // frees its memory: there may be as many takes
    size_t runs = 1;
    for (size_t i = 1; i < row_at.size(); ++i) runs += row_at[i] != row_at[i - 1] + 1;
    plan.takes.reserve(runs);
    for (const uint32_t row : row_at) {
      if (plan.takes.empty() || plan.takes.back().stop != row) {
        plan.takes.push_back({row, row});
      }
      ++plan.takes.back().stop;
    }
  }
  plan.first_piece = {0, static_cast<int64_t>(plan.pieces.size())};
  plan.first_take = {0, static_cast<int64_t>(plan.takes.size())};
  plan.keys = {0};
  return plan;
}

}  // namespace fastload
