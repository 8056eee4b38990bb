// The lanes of a plan: which rows of a batch come from which window.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/plan/read_plan.h"

namespace fastload {

// The rows of each lane, lane by lane, among batches. A lane's windows come in the order
// of the plan, and a lane's rows in the order of its windows.
class Lanes {
 public:
  // Borrows the plan.
  explicit Lanes(const ReadPlan* plan);

  // Returns the first row of a window, counted in its lane.
  int64_t FirstRow(int64_t window) const { return first_[static_cast<size_t>(window)]; }
  // Returns the rows that a window delivers.
  int64_t Rows(int64_t window) const { return rows_[static_cast<size_t>(window)]; }
  // Returns the window before, or after, a window in its lane, or -1.
  int64_t Before(int64_t window) const { return before_[static_cast<size_t>(window)]; }
  int64_t After(int64_t window) const { return after_[static_cast<size_t>(window)]; }

  // Returns the batch that takes a row of a lane.
  int64_t BatchOf(int64_t lane, int64_t row) const;
  // Returns the first row of a lane that a batch takes.
  int64_t FirstOf(int64_t lane, int64_t batch) const;
  // Returns the rows of a lane that are no repeats.
  int64_t RealRows(int64_t lane) const;
  // Returns the latest window of which a batch takes rows.
  int64_t LastWindow(int64_t batch) const;

  // Packed plans: returns the elements of a batch, and those that a batch has before the
  // first element that it takes of a window.
  int64_t Items(int64_t batch) const;
  int64_t ItemsBefore(int64_t batch, int64_t window) const;

 private:
  void FindEdges();
  void CountItems();

  const ReadPlan* plan_;
  std::vector<int64_t> first_;
  std::vector<int64_t> rows_;
  std::vector<int64_t> before_;
  std::vector<int64_t> after_;
  std::vector<int64_t> lane_rows_;           // of each lane
  std::vector<std::vector<int64_t>> edges_;  // several lanes: of batches in each lane
  std::vector<int64_t> last_window_;         // several lanes: of each batch
  // Packed plans: elements of a lane before each window, and before each batch.
  std::vector<int64_t> items_;
  std::vector<std::vector<int64_t>> item_edges_;
};

}  // namespace fastload
