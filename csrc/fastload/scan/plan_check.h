// What a plan must keep to, so that a pass reads and writes its own memory alone.
#pragma once

#include "fastload/base/status.h"
#include "fastload/plan/read_plan.h"
#include "fastload/scan/dataset.h"

namespace fastload {

// Returns an error if the plan breaks a promise that windows, lanes and delivery rely on.
// docs/notes/plan.md lists the promises. Readers check that pieces have as many rows as
// the plan says.
Status CheckPlan(const ReadPlan& plan, const Dataset& dataset);

}  // namespace fastload
