#include "fastload/scan/task_groups.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace fastload {
namespace {

// The most bytes that the tasks of a group read or write: a few hundred microseconds.
constexpr int64_t kMostBytes = int64_t{1} << 20;
constexpr size_t kMostTasks = 16;
// Groups for each thread: the last ones keep all threads at work until the windows end.
constexpr size_t kGroupsPerThread = 4;

// Returns about how many bytes a task reads or writes; kMostBytes if unknown.
int64_t BytesOf(const Pass& pass, const Window& window, const UnitTask& task) {
  const Unit& unit = pass.dataset->units[static_cast<size_t>(task.unit)];
  const int64_t tasks = WindowTask::Count(window, unit, task.step);
  const int64_t read = window.units[static_cast<size_t>(task.unit)].fetch_bytes;
  switch (unit.kind) {
    case Unit::Kind::kNested:
    case Unit::Kind::kPadded:
    case Unit::Kind::kBytes:
      // The bytes of kept pages are not counted.
      return read == 0 ? kMostBytes : read / tasks;
    case Unit::Kind::kFixed:
      return std::max(read, unit.width * window.rows) / tasks;
    case Unit::Kind::kFile:
    case Unit::Kind::kRow:
    case Unit::Kind::kRealRow:
    case Unit::Kind::kFirst:
      break;
  }
  constexpr int64_t kNumberBytes = 8;
  return kNumberBytes * window.rows / tasks;
}

}  // namespace

std::vector<TaskGroup> GroupTasks(const Pass& pass, std::vector<ReadyTask> ready) {
  const auto threads = static_cast<size_t>(pass.cpu->threads());
  // A batch takes rows of every lane, so a window of each lane is in work at once.
  const size_t at_once = ready.size() * static_cast<size_t>(pass.plan.lanes());
  const size_t most =
      std::clamp<size_t>(at_once / (kGroupsPerThread * threads), 1, kMostTasks);
  const auto fills_parts = [&pass](const ReadyTask& r) {
    const Unit& unit = pass.dataset->units[static_cast<size_t>(r.task.unit)];
    return WindowTask::FillsParts(*r.window, unit, r.task.step);
  };
  if (std::ranges::any_of(ready, fills_parts)) {
    // All units fill the first parts of a window before one of them fills the next parts.
    std::ranges::stable_sort(ready, {}, [&](const ReadyTask& r) {
      return std::pair(r.window->index, fills_parts(r) ? r.task.number + 1 : 0);
    });
  }
  std::vector<TaskGroup> groups;
  groups.reserve(ready.size() / most + 1);
  int64_t bytes = 0;
  for (ReadyTask& next : ready) {
    const int64_t more = most > 1 ? BytesOf(pass, *next.window, next.task) : kMostBytes;
    const bool joins = !groups.empty() && groups.back().window == next.window &&
                       groups.back().tasks.size() < most && bytes + more <= kMostBytes;
    if (!joins) {
      groups.push_back({.window = std::move(next.window)});
      groups.back().tasks.reserve(most);
      bytes = 0;
    }
    groups.back().tasks.push_back(next.task);
    bytes += more;
  }
  return groups;
}

}  // namespace fastload
