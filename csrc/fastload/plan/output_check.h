// Whether the outputs asked for can be made of their columns.
#pragma once

#include <vector>

#include "fastload/base/status.h"
#include "fastload/plan/columns.h"

namespace fastload {

// An error where an output names a column that is not there, or of a shape that its kind
// is not made of.
Status CheckOutputs(const std::vector<ColumnSpec>& columns,
                    const std::vector<OutputSpec>& outputs);

}  // namespace fastload
