#include "fastload/scan/scan.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "fastload/decode/pages/chunk_open.h"
#include "fastload/scan/window_setup.h"

namespace fastload {
namespace {

// Before any other work.
constexpr auto kFirst = std::numeric_limits<int64_t>::min();

Stage StageOf(WindowStep step) {
  switch (step) {
    case WindowStep::kStage:
      return Stage::kStage;
    case WindowStep::kCount:
      return Stage::kCount;
    case WindowStep::kFill:
      break;
  }
  return Stage::kFill;
}

}  // namespace

template <typename Fn>
void Scan::Attempt(const Fn& fn) {
  Status status = CatchParquet([&] {
    fn();
    return Status::OK();
  });
  if (status.ok()) return;
  std::lock_guard lock(mutex_);
  delivery_.FailLocked(kWholePass, std::move(status));
}

class Scan::Lock {
 public:
  Lock(Scan* scan, By by) : scan_(scan), by_(by) { scan_->mutex_.lock(); }
  ~Lock() {
    std::vector<ReadyTask> ready;
    ready.swap(scan_->ready_);
    if (by_ == By::kTask) scan_->mutex_.unlock();
    if (!ready.empty()) scan_->SubmitReady(std::move(ready), by_);
    if (by_ != By::kTask) scan_->mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Scan* const scan_;
  const By by_;
};

Scan::Scan(Dataset* dataset, Executor* cpu, FetchContext fetch, BlockPool* batch_pool,
           BlockPool* staging_pool, ReadPlan plan, ScanOptions options,
           int64_t first_priority)
    : pass_(dataset, cpu, fetch, batch_pool, staging_pool, std::move(plan),
            std::move(options), first_priority),
      delivery_(&pass_, &mutex_, this),
      schedule_(&pass_, &delivery_, this) {}

int64_t Scan::end_priority() const { return pass_.Priority(pass_.plan.windows(), -1); }

// Beginning and ending ----------------------------------------------------------------

void Scan::Start() {
  Attempt([&] {
    Status unchanged = pass_.dataset->files.CheckOpen();
    const Lock lock(this, By::kOther);
    if (!unchanged.ok()) return delivery_.FailLocked(kWholePass, std::move(unchanged));
    schedule_.OpenWindows();
  });
}

void Scan::StartNext(const std::shared_ptr<Scan>& next) {
  std::lock_guard lock(mutex_);
  next->Expect();
  next_ = next;
  LeaveToNextLocked();
}

void Scan::LeaveToNextLocked() {
  if (!opened_all() && !*pass_.cancelled) return;
  const auto next = next_.lock();
  if (next == nullptr) return;
  // A scan locks the one after it, never the one before.
  next->Allow(pass_.options.open_windows - schedule_.windows(),
              pass_.options.fetch_bytes - schedule_.fetched_bytes());
}

void Scan::Expect() {
  Attempt([&] {
    const Lock lock(this, By::kOther);
    pass_.begun = false;
    schedule_.Allow(0, 0);
  });
}

void Scan::Allow(int64_t windows, int64_t bytes) {
  Attempt([&] {
    const Lock lock(this, By::kOther);
    if (pass_.begun) return;
    schedule_.Allow(windows, bytes);
  });
}

void Scan::Begin() {
  if (*pass_.cancelled) return;  // a closed scan may have outlived the dataset
  Attempt([&] {
    Status unchanged = pass_.dataset->files.CheckOpen();
    const Lock lock(this, By::kOther);
    pass_.begun = true;
    if (!unchanged.ok()) delivery_.FailLocked(kWholePass, std::move(unchanged));
    schedule_.Allow(pass_.options.open_windows, pass_.options.fetch_bytes);
  });
}

Result<std::optional<Batch>> Scan::Next(std::chrono::milliseconds timeout, bool* done) {
  Result<std::optional<Batch>> batch = OutOfMemory();
  Status thrown = CatchParquet([&] {
    batch = delivery_.Next(timeout, done);
    // What was delivered may have made room for others.
    const Lock lock(this, By::kOther);
    return Status::OK();
  });
  if (thrown.ok()) return batch;
  // What was not done might be what the next batch waits for.
  std::lock_guard lock(mutex_);
  delivery_.FailLocked(kWholePass, std::move(thrown));
  return delivery_.failureLocked();
}

void Scan::Close() noexcept {
  {
    WindowSchedule::Dropped windows;
    Delivery::PendingBatches batches;
    std::vector<ReadyTask> ready;
    std::lock_guard lock(mutex_);
    ready.swap(ready_);
    *pass_.cancelled = true;
    windows = schedule_.Drop();
    batches = delivery_.DropLocked();
    delivery_.WakeLocked();
  }
  std::lock_guard lock(mutex_);
  schedule_.ReleaseBytes();
  LeaveToNextLocked();
}

std::string Scan::Describe() {
  std::lock_guard lock(mutex_);
  // A closed scan may have outlived the dataset.
  if (*pass_.cancelled) return "closed\n";
  return delivery_.DescribeLocked() + schedule_.Describe();
}

// Preparing and opening ---------------------------------------------------------------

void Scan::SubmitPrepare(const std::shared_ptr<Window>& window) {
  // First, since its reads go on while earlier windows are decoded.
  const int64_t priority = pass_.begun ? kFirst : pass_.Priority(window->index, -1);
  pass_.cpu->Submit(priority, [self = shared_from_this(), window](Scratch&) {
    if (*self->pass_.cancelled) return;
    self->Attempt([&] { self->Prepare(window); });
  });
}

void Scan::Prepare(const std::shared_ptr<Window>& window) {
  const SpanTimer span(&pass_.dataset->spans, Stage::kPrepare, {.index = window->index});
  SetUpWindow(pass_, window.get());
  Status status = MakeStreams(pass_, window.get());
  bool opened = false;
  {
    const Lock lock(this, By::kTask);
    if (*pass_.cancelled) return;
    if (!status.ok()) {
      schedule_.NotPrepared(window);
      return delivery_.FailLocked(window->index, std::move(status));
    }
    schedule_.Prepared(window);
    opened = window->opened;
    schedule_.PrepareNext();
  }
  if (opened) Open(window);
}

void Scan::StartStreams(const std::shared_ptr<Window>& window, int32_t unit) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  const auto waits = [](const WindowChunk& chunk) {
    return chunk.stream != nullptr && !chunk.stream->at_hand();
  };
  if (std::ranges::none_of(state.chunks, waits)) {
    for (const WindowChunk& chunk : state.chunks) {
      if (chunk.stream != nullptr) chunk.stream->Start({});
    }
    schedule_.Met(window, unit, Condition::kStreamsArrived);
    return delivery_.WakeForWorkLocked();
  }
  const auto arriving = std::make_shared<std::atomic<size_t>>(state.chunks.size());
  state.arriving = arriving;
  // Called on another thread: it may wait for mutex_, which this one holds.
  const auto arrived = [self = shared_from_this(), window, unit, arriving] {
    if (--*arriving > 0) return;
    self->Attempt([&] {
      const Lock lock(self.get(), By::kOther);
      self->schedule_.Met(window, unit, Condition::kStreamsArrived);
      self->delivery_.WakeForWorkLocked();
    });
  };
  size_t at_hand = 0;
  for (const WindowChunk& chunk : state.chunks) {
    if (chunk.stream == nullptr || chunk.stream->Start(arrived)) ++at_hand;
  }
  // Counted last, so that until then no thread waits for mutex_.
  if (at_hand > 0 && arriving->fetch_sub(at_hand) == at_hand) {
    schedule_.Met(window, unit, Condition::kStreamsArrived);
  }
  delivery_.WakeForWorkLocked();
}

void Scan::SubmitOpen(const std::shared_ptr<Window>& window) {
  pass_.cpu->Submit(kFirst, [self = shared_from_this(), window](Scratch&) {
    if (*self->pass_.cancelled) return;
    self->Attempt([&] { self->Open(window); });
  });
}

void Scan::Open(const std::shared_ptr<Window>& window) {
  {
    const Lock lock(this, By::kTask);
    schedule_.MetByAll(window, Condition::kWindowOpened);
    if (window->shuffled && !spare_shuffles_.empty()) {
      window->shuffle = std::move(spare_shuffles_.back());
      spare_shuffles_.pop_back();
    }
  }
  // While the first bytes are on their way.
  if (window->shuffled) ComputeOrder(pass_, window.get());
  bool counted = false;
  {
    const Lock lock(this, By::kTask);
    schedule_.Ordered(window);
    counted = window->uncounted == 0;
  }
  if (counted) PlaceBatches(window);
}

// Decoding ----------------------------------------------------------------------------

void Scan::SubmitTask(const std::shared_ptr<Window>& window, int32_t unit, Step step,
                      int32_t task) {
  if (*pass_.cancelled) return;
  ready_.push_back({window, {.unit = unit, .step = step, .number = task}});
}

void Scan::SubmitReady(std::vector<ReadyTask> ready, By by) noexcept {
  Status status = CatchParquet([&] {
    std::vector<TaskGroup> groups = GroupTasks(pass_, std::move(ready));
    std::vector<Executor::Submission> tasks;
    tasks.reserve(groups.size());
    for (TaskGroup& group : groups) {
      const UnitTask& front = group.tasks.front();
      const std::vector<Unit>& units = pass_.dataset->units;
      // Parts are filled last, since a part is delivered once all units have filled it.
      const bool fills_parts = WindowTask::FillsParts(
          *group.window, units[static_cast<size_t>(front.unit)], front.step);
      const int32_t unit =
          fills_parts ? static_cast<int32_t>(units.size()) - 1 : front.unit;
      const int64_t priority = pass_.Priority(group.window->index, unit);
      tasks.push_back({priority, [self = shared_from_this(),
                                  group = std::move(group)](Scratch& scratch) {
                         self->Attempt([&] { self->Run(group, scratch); });
                       }});
    }
    pass_.cpu->SubmitAll(std::move(tasks));
    return Status::OK();
  });
  if (status.ok()) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (by == By::kTask) lock.lock();
  delivery_.FailLocked(kWholePass, std::move(status));
}

bool Scan::Wanted(const Window& window) const {
  return !*pass_.cancelled && delivery_.Wants(window.index);
}

struct Scan::RunTask {
  UnitTask task;
  bool carried = false;  // it has left its cursors for the next window
  bool filled = false;   // it has filled its parts
  bool last = false;     // it was the last of its step
};

void Scan::Run(const TaskGroup& group, Scratch& scratch) {
  const std::shared_ptr<Window>& window = group.window;
  std::vector<RunTask> ran;
  ran.reserve(group.tasks.size());
  for (const UnitTask& task : group.tasks) {
    if (!Wanted(*window)) break;
    ran.push_back(RunOne(window.get(), task, scratch));
  }
  const auto tells = [](const RunTask& task) {
    return task.carried || task.filled || task.last;
  };
  if (std::ranges::none_of(ran, tells)) return;
  bool counted = false;
  {
    const Lock lock(this, By::kTask);
    for (const RunTask& task : ran) {
      if (*pass_.cancelled) return;
      counted = RanLocked(window, task) || counted;
    }
  }
  if (counted) PlaceBatches(window);
}

Scan::RunTask Scan::RunOne(Window* window, const UnitTask& run, Scratch& scratch) {
  const auto u = static_cast<size_t>(run.unit);
  const Unit& spec = pass_.dataset->units[u];
  WindowUnit& state = window->units[u];
  WindowTask task(pass_.dataset, window, run.unit, run.number, &scratch);
  Status status = [&] {
    const SpanTimer span(&pass_.dataset->spans, StageOf(run.step),
                         {.index = window->index, .unit = run.unit});
    return task.Run(run.step);
  }();
  RunTask ran{run};
  if (status.ok()) {
    ran.carried = WindowTask::Decodes(spec, run.step) &&
                  run.number + 1 == WindowTask::Count(*window, spec, run.step);
    ran.filled = WindowTask::FillsParts(*window, spec, run.step);
  } else {
    std::lock_guard lock(mutex_);
    state.failures.emplace(run.number, std::move(status));
    state.failed = true;
  }
  // Whoever counts down to zero sees what the other tasks of the step have written.
  ran.last = --state.running == 0;
  if (ran.last && !state.failed) task.Finish(run.step);
  return ran;
}

bool Scan::RanLocked(const std::shared_ptr<Window>& window, const RunTask& ran) {
  const auto [unit, step, number] = ran.task;
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  if (ran.carried) {
    state.carried = true;
    schedule_.Carried(*window, unit, step);
  }
  const Unit& spec = pass_.dataset->units[static_cast<size_t>(unit)];
  if (ran.filled) {
    const std::span<Part> parts = WindowTask::PartsOf(window.get(), spec, number);
    for (Part& part : parts) --part.unfilled;
    AddPartsLocked(window, parts);
  }
  if (!ran.last) return false;
  if (state.failed) {
    delivery_.FailLocked(window->index, state.failures.begin()->second);
    return false;
  }
  if (WindowTask::Decodes(spec, step)) {
    schedule_.Decoded(window, unit);
    LeaveToNextLocked();
  }
  if (step == Step::kStage) schedule_.Staged(window, unit);
  if (step == Step::kFill && !WindowTask::FillsParts(*window, spec, step) &&
      --window->unfilled_whole == 0) {
    AddPartsLocked(window, window->parts);
  }
  if (step == Step::kFill && --window->unfilled == 0) FilledLocked(window);
  return step == Step::kCount && schedule_.Counted(window, unit);
}

void Scan::PlaceBatches(const std::shared_ptr<Window>& window) {
  Status status = AllocateParts(pass_, &delivery_, window.get());
  const Lock lock(this, By::kTask);
  if (!status.ok()) return delivery_.FailLocked(window->index, std::move(status));
  schedule_.MetByAll(window, Condition::kBatchesAllocated);
}

void Scan::AddPartsLocked(const std::shared_ptr<Window>& window, std::span<Part> parts) {
  if (window->unfilled_whole > 0) return;
  for (Part& part : parts) {
    if (part.unfilled == 0) delivery_.AddLocked(window, &part);
  }
}

void Scan::FilledLocked(const std::shared_ptr<Window>& window) {
  window->order = RowOrder{};
  window->before.reset();
  if (pass_.plan.shuffled) spare_shuffles_.push_back(std::move(window->shuffle));
  if (window->undelivered == 0) Delivered(window);
}

// Delivering --------------------------------------------------------------------------

void Scan::SubmitMerge(int64_t window, int64_t batch) {
  pass_.cpu->Submit(pass_.Priority(window, -1),
                    [self = shared_from_this(), batch](Scratch& scratch) {
                      self->Attempt([&] { self->delivery_.Merge(batch, scratch); });
                    });
}

void Scan::SubmitCompute(int64_t window, int64_t batch) {
  pass_.cpu->Submit(pass_.Priority(window, -1),
                    [self = shared_from_this(), batch](Scratch& scratch) {
                      self->Attempt([&] { self->delivery_.Compute(batch, scratch); });
                    });
}

void Scan::Delivered(const std::shared_ptr<Window>& window) {
  schedule_.Close(window);
  LeaveToNextLocked();
}

}  // namespace fastload
