// Tasks of units, and the groups in which an executor runs them: a task that takes tens
// of microseconds is too short for locks of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fastload/collate/window.h"
#include "fastload/scan/pass.h"

namespace fastload {

// One task of a step of a unit.
struct UnitTask {
  int32_t unit = 0;
  WindowStep step = WindowStep::kFill;
  int32_t number = 0;  // among the tasks of the step
};

// Tasks of one window that a thread runs one after the other.
struct TaskGroup {
  std::shared_ptr<Window> window;
  std::vector<UnitTask> tasks;
};

// A task that may start.
struct ReadyTask {
  std::shared_ptr<Window> window;
  UnitTask task;
};

// Puts neighbouring tasks of the same window together, as long as a group works on few
// bytes and the windows that are in work at once have several groups for each thread.
// Keeps the order of the tasks.
std::vector<TaskGroup> GroupTasks(const Pass& pass, std::vector<ReadyTask> ready);

}  // namespace fastload
