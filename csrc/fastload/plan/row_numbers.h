// The rows of a dataset by number, and the plan that takes some of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/plan/read_plan.h"
#include "fastload/plan/row_selection.h"

namespace fastload {

// The numbers of a dataset's rows: row i is the i-th selected row of the row groups, one
// after another.
class RowNumbers {
 public:
  // Row group g, number `row_group[g]` of file `file[g]`, has `rows[g]` selected rows.
  static Result<RowNumbers> Make(std::vector<int32_t> file,
                                 std::vector<int32_t> row_group,
                                 const std::vector<int64_t>& rows);

  int64_t rows() const { return starts_.back(); }

  // Returns the selected rows of a row group.
  using Selection = std::function<RowBits(int32_t file, int32_t row_group)>;

  // Plans one window and one batch with the rows of `indices`, in their order. A row that
  // is named several times is decoded once. There is at least one index, and each is in
  // [0, rows()).
  Result<ReadPlan> Plan(std::span<const int64_t> indices,
                        const Selection& selection) const;

 private:
  std::vector<int32_t> file_;
  std::vector<int32_t> row_group_;
  std::vector<int64_t> starts_;  // the first row of each row group, then the end
};

}  // namespace fastload
