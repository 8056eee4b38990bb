// The check that the requested outputs can be made from their columns.
#pragma once

#include <vector>

#include "fastload/base/status.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Returns an error if an output names a column that does not exist, or a column whose
// shape does not fit the output's kind.
Status CheckOutputs(const std::vector<ColumnSpec>& columns,
                    const std::vector<OutputSpec>& outputs);

}  // namespace fastload
