#include "fastload/scan/scan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fastload/collate/shuffle.h"
#include "fastload/decode/pages/chunk_open.h"

namespace fastload {
namespace {

Stage StageOf(WindowTask::Step step) {
  switch (step) {
    case WindowTask::Step::kStage:
      return Stage::kStage;
    case WindowTask::Step::kCount:
      return Stage::kCount;
    case WindowTask::Step::kFill:
      break;
  }
  return Stage::kFill;
}

}  // namespace

Scan::Scan(Dataset* dataset, Executor* cpu, FetchContext fetch, BlockPool* batch_pool,
           BlockPool* staging_pool, ReadPlan plan, ScanOptions options,
           int64_t first_priority)
    : dataset_(dataset),
      cpu_(cpu),
      fetch_(fetch),
      batch_pool_(batch_pool),
      staging_pool_(staging_pool),
      plan_(std::move(plan)),
      options_(std::move(options)),
      first_priority_(first_priority),
      batches_((plan_.rows + plan_.batch_rows - 1) / plan_.batch_rows),
      allowed_windows_(options_.open_windows),
      allowed_bytes_(options_.fetch_bytes),
      failed_window_(plan_.windows()) {
  int64_t rows = 0;
  for (int64_t w = 0; w < plan_.windows(); ++w) {
    first_output_.push_back(rows);
    for (auto t = plan_.first_take[static_cast<size_t>(w)];
         t < plan_.first_take[static_cast<size_t>(w) + 1]; ++t) {
      const Take& take = plan_.takes[static_cast<size_t>(t)];
      rows += take.stop - take.start;
    }
  }
  first_output_.push_back(rows);
}

void Scan::Start() {
  std::lock_guard lock(mutex_);
  OpenWindowsLocked();
}

void Scan::StartNext(const std::shared_ptr<Scan>& next) {
  std::lock_guard lock(mutex_);
  {
    std::lock_guard next_lock(next->mutex_);
    next->begun_ = false;
    next->allowed_windows_ = 0;
    next->allowed_bytes_ = 0;
  }
  next_ = next;
  LeaveToNextLocked();
}

void Scan::LeaveToNextLocked() {
  if (next_window_ < plan_.windows() && !*cancelled_) return;
  const auto next = next_.lock();
  if (next == nullptr) return;
  // A scan locks the one after it, never the one before.
  next->Allow(options_.open_windows - static_cast<int64_t>(open_.size()),
              options_.fetch_bytes - fetched_bytes_);
}

void Scan::Allow(int64_t windows, int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (begun_) return;
  allowed_windows_ = windows;
  allowed_bytes_ = bytes;
  AdmitLocked();
  OpenWindowsLocked();
}

void Scan::Begin() {
  std::lock_guard lock(mutex_);
  begun_ = true;
  allowed_windows_ = options_.open_windows;
  allowed_bytes_ = options_.fetch_bytes;
  AdmitLocked();
  OpenWindowsLocked();
}

bool Scan::opened_all() const { return next_window_ >= plan_.windows(); }

int64_t Scan::BatchRows(int64_t batch) const {
  return std::min(plan_.batch_rows, plan_.rows - batch * plan_.batch_rows);
}

int64_t Scan::LastWindow(int64_t batch) const {
  const int64_t last = batch * plan_.batch_rows + BatchRows(batch) - 1;
  const auto above = std::upper_bound(first_output_.begin(), first_output_.end(), last);
  return above - first_output_.begin() - 1;
}

int64_t Scan::end_priority() const { return Priority(plan_.windows(), -1); }

int64_t Scan::Priority(int64_t window, int32_t unit) const {
  const int64_t each = static_cast<int64_t>(dataset_->units.size()) + 1;
  return first_priority_ + window * each + unit + 1;
}

// Opening -----------------------------------------------------------------------------

int64_t Scan::OpenedLocked() const {
  return static_cast<int64_t>(open_.size()) - (next_window_ - next_to_open_);
}

bool Scan::LooksAheadLocked() const {
  // Stripes of a row group that is there cost a little memory each, and no bytes.
  constexpr size_t kMostWindows = 256;
  if (dataset_->blocks != nullptr) {
    // Enough that whoever makes them is never without work; they are made in any case.
    const int64_t at_once = dataset_->blocks->at_once();
    const auto awaited = static_cast<int64_t>(awaited_blocks_.size());
    return allowed_windows_ > 0 && awaited < 2 * at_once &&
           static_cast<int64_t>(open_.size()) < allowed_windows_ + 4 * at_once;
  }
  return fetches_ && requests_.empty() && fetched_bytes_ < allowed_bytes_ &&
         open_.size() < kMostWindows;
}

void Scan::OpenWindowsLocked() {
  if (*cancelled_) return;
  constexpr auto kFirst = std::numeric_limits<int64_t>::min();
  while (next_to_open_ < next_window_ && OpenedLocked() < allowed_windows_) {
    const std::shared_ptr<Window> window = open_.at(next_to_open_++);
    window->opened = true;
    AdmitLocked();
    if (!window->prepared) continue;
    cpu_->Submit(kFirst, [self = shared_from_this(), window](Scratch&) {
      if (*self->cancelled_) return;
      self->Attempt(window->index, [&] { self->Open(window); });
    });
  }
  if (preparing_ || next_window_ >= failed_window_) return;
  const bool opens = next_to_open_ == next_window_ && OpenedLocked() < allowed_windows_;
  if (!opens && !LooksAheadLocked()) return;
  // One at a time, so that bytes are asked for in plan order.
  preparing_ = true;
  const int64_t index = next_window_++;
  if (opens) ++next_to_open_;
  auto window = std::make_shared<Window>();
  window->index = index;
  window->opened = opens;
  open_[index] = window;
  // Before any other work: its reads go on while earlier windows are decoded.
  cpu_->Submit(begun_ ? kFirst : Priority(window->index, -1),
               [self = shared_from_this(), window](Scratch&) {
                 if (*self->cancelled_) return;
                 self->Attempt(window->index, [&] { self->Prepare(window); });
               });
}

// Fetching ----------------------------------------------------------------------------

int64_t Scan::Charge(const Window& window, const WindowUnit& unit) {
  int64_t bytes = unit.fetch_bytes;
  for (size_t read : unit.reads) {
    if (!window.reads[read].charged) bytes += window.reads[read].bytes;
  }
  return bytes;
}

void Scan::AdmitLocked() {
  while (!requests_.empty() && !*cancelled_) {
    const std::shared_ptr<Window> window = requests_.front().window;
    const int32_t unit = requests_.front().unit;
    WindowUnit& state = window->units[static_cast<size_t>(unit)];
    // One unit always, so that a column chunk larger than the budget is read all the
    // same.
    const bool needed = admitted_ == 0 && begun_ && window->opened;
    const int64_t charge = Charge(*window, state);
    if (!needed && fetched_bytes_ + charge > allowed_bytes_) return;
    requests_.pop_front();
    fetched_bytes_ += charge;
    for (size_t read : state.reads) window->reads[read].charged = true;
    ++admitted_;
    // One more than the streams, for this loop: it holds the lock that others ask for.
    auto left = std::make_shared<std::atomic<size_t>>(state.streams.size() + 1);
    const auto arrived = [self = shared_from_this(), window, unit, left] {
      if (--*left > 0) return;
      std::lock_guard lock(self->mutex_);
      self->UnblockLocked(window, unit);
      self->WakeForWorkLocked();
    };
    size_t at_hand = 1;
    for (const auto& stream : state.streams) {
      if (stream == nullptr || stream->Start(arrived)) ++at_hand;
    }
    if (left->fetch_sub(at_hand) == at_hand) UnblockLocked(window, unit);
    WakeForWorkLocked();
  }
}

void Scan::DecodedLocked(const std::shared_ptr<Window>& window, int32_t unit) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  if (!state.streams.empty()) --admitted_;
  fetched_bytes_ += state.carried_bytes - state.fetch_bytes;
  for (size_t read : state.reads) {
    if (--window->reads[read].units == 0) fetched_bytes_ -= window->reads[read].bytes;
  }
  if (window->before) {
    fetched_bytes_ -= window->before->units[static_cast<size_t>(unit)].carried_bytes;
  }
  AdmitLocked();
  OpenWindowsLocked();
  LeaveToNextLocked();
}

// Decoding ----------------------------------------------------------------------------

void Scan::UnblockLocked(const std::shared_ptr<Window>& window, int32_t unit) {
  if (--window->units[static_cast<size_t>(unit)].blockers > 0) return;
  const bool staged = dataset_->units[static_cast<size_t>(unit)].staged();
  SubmitLocked(window, unit, staged ? Step::kStage : Step::kFill);
}

void Scan::SubmitLocked(const std::shared_ptr<Window>& window, int32_t unit, Step step) {
  const auto u = static_cast<size_t>(unit);
  WindowUnit& state = window->units[u];
  const int32_t tasks = WindowTask::Count(*window, dataset_->units[u], step);
  state.running = tasks;
  state.submitted = true;
  const bool held = state.held && WindowTask::Decodes(dataset_->units[u], step);
  for (int32_t task = held ? 1 : 0; task < tasks; ++task) {
    SubmitTaskLocked(window, unit, step, task);
  }
}

void Scan::SubmitTaskLocked(const std::shared_ptr<Window>& window, int32_t unit,
                            Step step, int32_t task) {
  if (*cancelled_) return;
  cpu_->Submit(Priority(window->index, unit), [self = shared_from_this(), window, unit,
                                               step, task](Scratch& scratch) {
    if (!self->Wanted(*window)) return;
    self->Attempt(window->index, [&] { self->Run(window, unit, step, task, scratch); });
  });
}

void Scan::CarriedLocked(const Window& window, int32_t unit, Step step) {
  const auto u = static_cast<size_t>(unit);
  const auto found = open_.find(window.index + 1);
  if (!window.continued || found == open_.end() || !found->second->prepared) return;
  WindowUnit& after = found->second->units[u];
  after.held = false;
  if (after.submitted) SubmitTaskLocked(found->second, unit, step, 0);
}

bool Scan::Wanted(const Window& window) {
  std::lock_guard lock(mutex_);
  return !*cancelled_ && window.index < failed_window_;
}

void Scan::Run(const std::shared_ptr<Window>& window, int32_t unit, Step step,
               int32_t number, Scratch& scratch) {
  WindowTask task(dataset_, window.get(), unit, number, &scratch);
  const Status status = [&] {
    const SpanTimer span(&dataset_->spans, StageOf(step),
                         {.index = window->index, .unit = unit});
    return task.Run(step);
  }();
  {
    std::lock_guard lock(mutex_);
    if (*cancelled_) return;
    const Unit& spec = dataset_->units[static_cast<size_t>(unit)];
    WindowUnit& state = window->units[static_cast<size_t>(unit)];
    if (!status.ok()) {
      state.failures.emplace(number, status);
    } else if (WindowTask::Decodes(spec, step) &&
               number + 1 == WindowTask::Count(*window, spec, step)) {
      state.carried = true;
      CarriedLocked(*window, unit, step);
    }
    if (--state.running > 0) return;
    if (!state.failures.empty()) {
      return FailLocked(window->index, state.failures.begin()->second);
    }
  }
  task.Finish(step);
  {
    std::lock_guard lock(mutex_);
    if (*cancelled_) return;
    const Unit& spec = dataset_->units[static_cast<size_t>(unit)];
    if (WindowTask::Decodes(spec, step)) DecodedLocked(window, unit);
    if (step == Step::kFill && --window->unfilled == 0) FilledLocked(window);
  }
  if (step == Step::kStage) CountDown(window);
  if (step == Step::kCount) PlaceBatches(window);
}

void Scan::CountDown(const std::shared_ptr<Window>& window) {
  {
    std::lock_guard lock(mutex_);
    if (--window->unstaged > 0) return;
    for (size_t u = 0; u < window->units.size(); ++u) {
      if (!dataset_->units[u].staged()) continue;
      SubmitLocked(window, static_cast<int32_t>(u), Step::kCount);
    }
    if (window->uncounted > 0) return;
    window->uncounted = 1;
  }
  PlaceBatches(window);
}

void Scan::PlaceBatches(const std::shared_ptr<Window>& window) {
  {
    std::lock_guard lock(mutex_);
    if (--window->uncounted > 0) return;
  }
  const Status status = AllocateParts(window.get());
  std::lock_guard lock(mutex_);
  if (!status.ok()) return FailLocked(window->index, status);
  for (size_t u = 0; u < window->units.size(); ++u) {
    const auto unit = static_cast<int32_t>(u);
    if (dataset_->units[u].staged()) {
      SubmitLocked(window, unit, Step::kFill);
    } else {
      UnblockLocked(window, unit);
    }
  }
}

Status Scan::AllocateParts(Window* window) {
  std::vector<int64_t> sizes(static_cast<size_t>(dataset_->layout.sizes()));
  for (size_t p = 0; p < window->parts.size(); ++p) {
    for (size_t u = 0; u < window->units.size(); ++u) {
      if (!dataset_->units[u].staged()) continue;
      for (const Layout::Slot& slot : dataset_->units[u].slots) {
        std::copy_n(window->units[u].sizes.begin() + p * slot.levels, slot.levels,
                    sizes.begin() + slot.first_size);
      }
    }
    Part& part = window->parts[p];
    part.areas = dataset_->layout.Place(part.rows, sizes);
    ARROW_ASSIGN_OR_RAISE(part.block, batch_pool_->Allocate(part.areas.bytes));
  }
  return Status::OK();
}

// Delivering --------------------------------------------------------------------------

void Scan::FailLocked(int64_t window, const Status& status) {
  if (window < failed_window_) {
    failed_window_ = window;
    failure_ = status;
  }
  WakeLocked();
}

void Scan::WakeLocked() {
  ++wakes_;
  ready_.notify_all();
  if (options_.wakes) options_.wakes->Wake();
}

void Scan::WakeForWorkLocked() {
  if (!cpu_->has_threads()) WakeLocked();
}

Result<std::optional<Batch>> Scan::Next(std::chrono::milliseconds timeout, bool* done) {
  // A closed scan may have outlived the dataset.
  if (*cancelled_) return MakeError(ErrorKind::kClosed, "The pass was closed");
  Timer timer(&dataset_->counters.wait_ns);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  const SpanTimer span(&dataset_->spans, Stage::kWait, {.index = next_batch_});
  while (true) {
    if (*cancelled_) return MakeError(ErrorKind::kClosed, "The pass was closed");
    *done = next_batch_ == batches_;
    if (*done) return std::nullopt;
    if (ReadyLocked()) break;
    if (LastWindow(next_batch_) >= failed_window_) {
      const auto kind = KindOf(failure_);
      const bool lost = kind == ErrorKind::kCorruptFile || kind == ErrorKind::kStorage;
      if (const auto group = RowGroupOf(failure_); group && lost) {
        damage_ = Damage{failed_window_, *group};
      }
      return failure_;
    }
    const int64_t wakes = wakes_;
    lock.unlock();
    const bool ran = cpu_->RunOne() || fetch_.io->RunOne();
    lock.lock();
    if (ran && std::chrono::steady_clock::now() < deadline) continue;
    const auto woken = [&] { return wakes_ != wakes; };
    if (ran || !ready_.wait_until(lock, deadline, woken)) return std::nullopt;
  }
  // Only to be looked at: it stays the next one.
  if (const Batch& next = pending_[next_batch_].batch; next.failed_kernel >= 0) {
    return next;
  }
  auto node = pending_.extract(next_batch_++);
  Pending& pending = node.mapped();
  if (pending.window && --pending.window->undelivered == 0) {
    CloseWindowLocked(pending.window);
  }
  Batch batch = std::move(pending.batch);
  batch.window = LastWindow(batch.index);
  batch.block->MarkLent();
  dataset_->counters.batches += 1;
  dataset_->counters.rows += batch.areas.rows;
  dataset_->counters.batch_bytes += batch.areas.bytes;
  return batch;
}

bool Scan::ReadyLocked() const {
  const auto found = pending_.find(next_batch_);
  return found != pending_.end() && found->second.ready;
}

bool Scan::ready() {
  std::lock_guard lock(mutex_);
  return ReadyLocked();
}

bool Scan::waits() {
  if (*cancelled_ || !cpu_->has_threads()) return false;
  std::lock_guard lock(mutex_);
  if (next_batch_ == batches_ || LastWindow(next_batch_) >= failed_window_) return false;
  return !ReadyLocked();
}

std::optional<Damage> Scan::damage() {
  std::lock_guard lock(mutex_);
  return damage_;
}

void Scan::Close() {
  {
    std::map<int64_t, std::shared_ptr<Window>> open;
    std::map<int64_t, Pending> pending;
    std::deque<Request> requests;
    std::lock_guard lock(mutex_);
    *cancelled_ = true;
    open.swap(open_);
    pending.swap(pending_);
    requests.swap(requests_);
    last_prepared_.reset();
    WakeLocked();
  }
  std::lock_guard lock(mutex_);
  fetched_bytes_ = 0;
  LeaveToNextLocked();
}

}  // namespace fastload
