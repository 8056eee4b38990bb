#include "fastload/scan/window_schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace fastload {
namespace {

// Whether bytes of a window are not at hand.
bool Fetches(const Window& window) {
  const auto waits = [](const WindowChunk& chunk) {
    return chunk.stream != nullptr && !chunk.stream->at_hand();
  };
  return std::ranges::any_of(window.units, [&](const WindowUnit& unit) {
    return std::ranges::any_of(unit.chunks, waits);
  });
}

// Whether the unit's rows are staged in the order in which they are stored.
bool IsOrderless(const Unit& unit) { return unit.kind == Unit::Kind::kNested; }

const char* NameOf(WindowStep step) {
  switch (step) {
    case WindowStep::kStage:
      return "stage";
    case WindowStep::kCount:
      return "count";
    case WindowStep::kFill:
      break;
  }
  return "fill";
}

}  // namespace

WindowSchedule::WindowSchedule(const Pass* pass, const Delivery* delivery, Work* work)
    : pass_(pass),
      delivery_(delivery),
      work_(work),
      allowed_windows_(pass->options.open_windows),
      allowed_bytes_(pass->options.fetch_bytes),
      last_prepared_(static_cast<size_t>(pass->plan.lanes())) {}

void WindowSchedule::Allow(int64_t windows, int64_t bytes) {
  allowed_windows_ = windows;
  allowed_bytes_ = bytes;
  Admit();
  OpenWindows();
}

// Opening -----------------------------------------------------------------------------

int64_t WindowSchedule::Opened() const {
  return static_cast<int64_t>(open_.size()) - (next_window_ - next_to_open_);
}

bool WindowSchedule::LooksAhead() const {
  // Stripes of a row group that is there cost a little memory each, and no bytes.
  constexpr size_t kMostWindows = 256;
  return fetches_ && !HasRequests() && fetched_bytes_ < allowed_bytes_ &&
         open_.size() < kMostWindows;
}

void WindowSchedule::OpenWindows() {
  if (*pass_->cancelled) return;
  while (next_to_open_ < next_window_ && Opened() < allowed_windows_) {
    const std::shared_ptr<Window> window = open_.at(next_to_open_++);
    window->opened = true;
    Admit();
    if (window->prepared) work_->SubmitOpen(window);
  }
  if (preparing_ || !delivery_->Wants(next_window_)) return;
  const bool opens = next_to_open_ == next_window_ && Opened() < allowed_windows_;
  if (!opens && !LooksAhead()) return;
  // One at a time, so that bytes are asked for in plan order.
  preparing_ = true;
  const int64_t index = next_window_++;
  if (opens) ++next_to_open_;
  auto window = std::make_shared<Window>();
  window->index = index;
  window->opened = opens;
  open_[index] = window;
  work_->SubmitPrepare(window);
}

void WindowSchedule::Prepared(const std::shared_ptr<Window>& window) {
  Window& w = *window;
  w.prepared = true;
  fetches_ = fetches_ || Fetches(w);
  auto& last_prepared = last_prepared_[static_cast<size_t>(pass_->plan.LaneOf(w.index))];
  if (!w.fresh.empty() && !w.fresh[0]) w.before = last_prepared;
  last_prepared = w.continued ? window : nullptr;
  for (size_t u = 0; u < w.units.size(); ++u) {
    const Unit& spec = pass_->dataset->units[u];
    WindowUnit& unit = w.units[u];
    unit.next_step = spec.staged() ? WindowStep::kStage : WindowStep::kFill;
    unit.waits_for.Add(Condition::kWindowOpened);
    if (!IsOrderless(spec)) unit.waits_for.Add(Condition::kOrderKnown);
    if (!spec.staged()) unit.waits_for.Add(Condition::kBatchesAllocated);
    if (spec.columns.empty()) continue;
    unit.held = w.before && !w.before->units[u].carried;
    if (!unit.reads_bytes) continue;
    unit.waits_for.Add(Condition::kFetchBudget);
    unit.waits_for.Add(Condition::kStreamsArrived);
    requests_.push_back({window, static_cast<int32_t>(u)});
  }
  Admit();
}

void WindowSchedule::NotPrepared(const std::shared_ptr<Window>& window) {
  window->prepared = true;
  last_prepared_[static_cast<size_t>(pass_->plan.LaneOf(window->index))] = nullptr;
  preparing_ = false;
}

void WindowSchedule::PrepareNext() {
  preparing_ = false;
  OpenWindows();
}

void WindowSchedule::Close(const std::shared_ptr<Window>& window) {
  open_.erase(window->index);
  OpenWindows();
}

WindowSchedule::Dropped WindowSchedule::Drop() noexcept {
  Dropped dropped;
  dropped.open.swap(open_);
  dropped.requests.swap(requests_);
  next_request_ = 0;
  dropped.last_prepared.swap(last_prepared_);
  return dropped;
}

// Fetching ----------------------------------------------------------------------------

int64_t WindowSchedule::Charge(const Window& window, const WindowUnit& unit) {
  int64_t bytes = unit.fetch_bytes;
  for (size_t read : unit.reads) {
    if (!window.reads[read].charged) bytes += window.reads[read].bytes;
  }
  return bytes;
}

void WindowSchedule::Admit() {
  while (HasRequests() && !*pass_->cancelled) {
    const auto [window, unit] = requests_[next_request_];
    WindowUnit& state = window->units[static_cast<size_t>(unit)];
    // One unit always, so that a column chunk larger than the budget is read all the
    // same.
    const bool needed = admitted_ == 0 && pass_->begun && window->opened;
    const int64_t charge = Charge(*window, state);
    if (!needed && fetched_bytes_ + charge > allowed_bytes_) return;
    PopRequest();
    fetched_bytes_ += charge;
    for (size_t read : state.reads) window->reads[read].charged = true;
    ++admitted_;
    Met(window, unit, Condition::kFetchBudget);
    work_->StartStreams(window, unit);
  }
}

void WindowSchedule::PopRequest() {
  requests_[next_request_++] = {};
  if (2 * next_request_ < requests_.size()) return;
  requests_.erase(requests_.begin(),
                  requests_.begin() + static_cast<std::ptrdiff_t>(next_request_));
  next_request_ = 0;
}

void WindowSchedule::Decoded(const std::shared_ptr<Window>& window, int32_t unit) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  if (state.reads_bytes) --admitted_;
  fetched_bytes_ += state.carried_bytes - state.fetch_bytes;
  for (size_t read : state.reads) {
    if (--window->reads[read].units == 0) fetched_bytes_ -= window->reads[read].bytes;
  }
  if (window->before) {
    fetched_bytes_ -= window->before->units[static_cast<size_t>(unit)].carried_bytes;
  }
  Admit();
  OpenWindows();
}

// Steps -------------------------------------------------------------------------------

void WindowSchedule::Met(const std::shared_ptr<Window>& window, int32_t unit,
                         Condition condition) {
  Conditions& waits_for = window->units[static_cast<size_t>(unit)].waits_for;
  if (waits_for.Remove(condition) && waits_for.empty()) Submit(window, unit);
}

void WindowSchedule::MetByAll(const std::shared_ptr<Window>& window,
                              Condition condition) {
  for (size_t u = 0; u < window->units.size(); ++u) {
    Met(window, static_cast<int32_t>(u), condition);
  }
}

void WindowSchedule::Ordered(const std::shared_ptr<Window>& window) {
  window->ordered = true;
  MetByAll(window, Condition::kOrderKnown);
}

void WindowSchedule::Submit(const std::shared_ptr<Window>& window, int32_t unit) {
  const auto u = static_cast<size_t>(unit);
  const Unit& spec = pass_->dataset->units[u];
  WindowUnit& state = window->units[u];
  const WindowStep step = state.next_step;
  const int32_t tasks = WindowTask::Count(*window, spec, step);
  state.running = tasks;
  state.submitted = true;
  const bool held = state.held && WindowTask::Decodes(spec, step);
  for (int32_t task = held ? 1 : 0; task < tasks; ++task) {
    work_->SubmitTask(window, unit, step, task);
  }
}

void WindowSchedule::Carried(const Window& window, int32_t unit, WindowStep step) {
  const auto u = static_cast<size_t>(unit);
  const auto found = open_.find(pass_->lanes.After(window.index));
  if (!window.continued || found == open_.end() || !found->second->prepared) return;
  WindowUnit& after = found->second->units[u];
  after.held = false;
  if (after.submitted) work_->SubmitTask(found->second, unit, step, 0);
}

void WindowSchedule::Staged(const std::shared_ptr<Window>& window, int32_t unit) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  state.next_step = WindowStep::kCount;
  state.waits_for.Add(Condition::kUnitsStaged);
  if (!window->ordered) state.waits_for.Add(Condition::kOrderKnown);
  if (--window->unstaged == 0) MetByAll(window, Condition::kUnitsStaged);
}

bool WindowSchedule::Counted(const std::shared_ptr<Window>& window, int32_t unit) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  state.next_step = WindowStep::kFill;
  state.waits_for.Add(Condition::kBatchesAllocated);
  return --window->uncounted == 0;
}

// Describing --------------------------------------------------------------------------

std::string WindowSchedule::Describe() const {
  const auto number = [](int64_t n) { return std::to_string(n); };
  std::string text = number(Opened()) + " of " + number(allowed_windows_) +
                     " windows open, " + number(windows() - Opened()) + " ahead; " +
                     number(fetched_bytes_) + " of " + number(allowed_bytes_) +
                     " bytes fetched; " + number(next_window_) + " of " +
                     number(pass_->plan.windows()) + " windows begun";
  if (!pass_->begun) text += "; the pass before has not ended";
  text += '\n';
  for (const auto& [index, window] : open_) text += DescribeWindow(*window);
  if (preparing_ || opened_all()) return text;
  const bool wanted = delivery_->Wants(next_window_);
  return text + "window " + number(next_window_) +
         (wanted ? " waits for: earlier windows delivered\n"
                 : ": not read, since an earlier window has failed\n");
}

std::string WindowSchedule::DescribeWindow(const Window& window) const {
  const std::string name = "window " + std::to_string(window.index);
  if (!window.prepared) return name + ": is prepared\n";
  if (window.unfilled == 0) return name + ": filled, waits for: batches delivered\n";
  // Units that wait for the same things share a line.
  std::map<std::string, std::string> columns;
  for (size_t u = 0; u < window.units.size(); ++u) {
    const std::string waits = DescribeUnit(window, u);
    if (waits.empty()) continue;
    const Unit& spec = pass_->dataset->units[u];
    std::string& names = columns[waits];
    if (!names.empty()) names += ", ";
    names += spec.columns.empty()
                 ? "row numbers"
                 : pass_->dataset->columns[static_cast<size_t>(spec.columns[0])].name;
  }
  std::string text;
  for (const auto& [waits, names] : columns) {
    text.append(name).append(" (").append(names).append("): ");
    text.append(waits).append("\n");
  }
  return text;
}

std::string WindowSchedule::DescribeUnit(const Window& window, size_t unit) const {
  const WindowUnit& state = window.units[unit];
  const std::string step = NameOf(state.next_step);
  if (!state.failures.empty()) return step + " has failed";
  if (state.waits_for.empty()) {
    if (state.running == 0) return "";
    std::string text = step + " runs, " + std::to_string(state.running) + " tasks left";
    if (state.held) text += ", the first waits for: cursors of the window before";
    return text;
  }
  std::string text;
  for (int c = 0; c < kConditions; ++c) {
    const auto condition = static_cast<Condition>(c);
    if (!state.waits_for.Has(condition)) continue;
    text += text.empty() ? step + " waits for: " : ", ";
    text += fastload::NameOf(condition);
    if (condition == Condition::kStreamsArrived && state.arriving != nullptr) {
      text += " (" + std::to_string(state.arriving->load()) + " to come)";
    }
  }
  return text;
}

}  // namespace fastload
