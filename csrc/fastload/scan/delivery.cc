#include "fastload/scan/delivery.h"

#include <algorithm>
#include <utility>

namespace fastload {
namespace {

// Runs that are cut ahead of the consumer.
constexpr int64_t kRunsAhead = 4;

}  // namespace

Delivery::Delivery(const Pass* pass, std::mutex* mutex, Work* work)
    : pass_(pass), mutex_(mutex), work_(work), failed_window_(pass->plan.windows()) {}

// Making batches ----------------------------------------------------------------------

bool Delivery::PlacedLocked(Part* part) const {
  const auto found = pending_.find(part->batch);
  if (found == pending_.end() || !found->second.batch.block) return false;
  const Batch& batch = found->second.batch;
  part->block = batch.block;
  part->areas = pass_->dataset->layout.From(batch.areas, part->offset, part->first_item);
  part->in_place = true;
  return true;
}

void Delivery::PlaceInBatches(std::span<Part> parts) {
  std::lock_guard lock(*mutex_);
  for (Part& part : parts) {
    if (!part.whole) PlacedLocked(&part);
  }
}

Status Delivery::PlaceInBatch(Part* part, std::span<const int64_t> sizes) {
  {
    std::lock_guard lock(*mutex_);
    if (PlacedLocked(part)) return Status::OK();
  }
  Batch batch{
      .index = part->batch,
      .areas = pass_->dataset->layout.Place(pass_->BatchRows(part->batch), sizes)};
  ARROW_ASSIGN_OR_RAISE(batch.block, pass_->batch_pool->Allocate(batch.areas.bytes));
  std::lock_guard lock(*mutex_);
  if (*pass_->cancelled) return PassClosed();
  Pending& pending = pending_[part->batch];
  // Another window may have been faster.
  if (!pending.batch.block) pending.batch = std::move(batch);
  PlacedLocked(part);
  return Status::OK();
}

void Delivery::AddLocked(const std::shared_ptr<Window>& window, Part* part) {
  const int64_t batch = part->batch;
  const int64_t rows = part->rows;
  const bool joined = !part->whole && !part->in_place;
  Pending& pending = pending_[batch];
  // Before the rows count: a batch without a part for which there was no memory would be
  // handed out with the rows of the other parts.
  if (part->of_lane) {
    pending.windows.reserve(static_cast<size_t>(pass_->plan.lanes()));
    pending.windows.push_back(window);
  }
  if (part->whole) {
    pending.batch = {batch, std::move(part->block), std::move(part->areas)};
    pending.batches = part->batches;
  } else if (joined) {
    pending.parts.push_back(std::move(*part));
  } else {
    part->block.reset();  // the window may outlive the batch
  }
  pending.filled_rows += rows;
  if (pending.filled_rows < pass_->BatchRows(batch)) return;
  if (pass_->options.run_batches > 1) CutRunsLocked();
  if (pending.batches > 1) return WakeForWorkLocked();
  if (joined) {
    work_->SubmitMerge(window->index, batch);
  } else if (pass_->dataset->computes()) {
    work_->SubmitCompute(window->index, batch);
  } else {
    return BecameReadyLocked(batch);
  }
  WakeForWorkLocked();
}

void Delivery::BecameReadyLocked(int64_t batch) {
  pending_[batch].ready = true;
  // Nobody waits for a later batch.
  if (batch == next_batch_) WakeLocked();
}

void Delivery::Merge(int64_t batch, Scratch& scratch) {
  Dataset& dataset = *pass_->dataset;
  std::vector<Part> parts;
  {
    std::lock_guard lock(*mutex_);
    const auto found = pending_.find(batch);
    if (*pass_->cancelled || found == pending_.end()) return;
    parts = std::move(found->second.parts);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.offset < b.offset; });
  std::vector<Layout::Source> sources;
  sources.reserve(parts.size());
  for (const Part& part : parts) sources.push_back({part.block->data(), &part.areas});
  const SpanTimer span(&dataset.spans, Stage::kMerge, {.index = batch});
  Batch merged{.index = batch, .areas = dataset.layout.PlaceMerged(sources)};
  auto block = pass_->batch_pool->Allocate(merged.areas.bytes);
  Status status = block.status();
  if (status.ok()) {
    // Moved: once it is handed out, the consumer alone holds it.
    merged.block = *std::move(block);
    dataset.layout.Merge(sources, merged.block->data(), merged.areas);
    dataset.counters.merged_batches += 1;
    status = CallKernels(&merged, scratch);
  }
  std::lock_guard lock(*mutex_);
  if (*pass_->cancelled) return;
  if (!status.ok()) return FailLocked(pass_->LastWindow(batch), std::move(status));
  FinishLocked(std::move(merged));
}

void Delivery::CutRunsLocked() {
  next_to_cut_ = std::max(next_to_cut_, next_batch_);
  while (runs_ahead_ < kRunsAhead) {
    const auto found = pending_.find(next_to_cut_);
    if (found == pending_.end()) return;
    const Pending& pending = found->second;
    if (pending.batches > 1) {
      work_->SubmitCompute(pending.windows.front()->index, next_to_cut_);
      ++runs_ahead_;
    } else if (pending.filled_rows < pass_->BatchRows(next_to_cut_)) {
      return;
    }
    next_to_cut_ += pending.batches;
  }
}

Result<std::vector<Batch>> Delivery::Cut(const Batch& run, int64_t batches,
                                         Scratch& scratch) const {
  const Layout& layout = pass_->dataset->layout;
  const Layout::Source source{run.block->data(), &run.areas};
  std::vector<Batch> cut;
  cut.reserve(static_cast<size_t>(batches));
  int64_t row = 0;
  for (int64_t i = run.index; i < run.index + batches; ++i) {
    Batch batch{.index = i, .areas = layout.PlaceRows(source, row, pass_->BatchRows(i))};
    ARROW_ASSIGN_OR_RAISE(batch.block, pass_->batch_pool->Allocate(batch.areas.bytes));
    layout.CopyRows(source, row, batch.block->data(), batch.areas);
    ARROW_RETURN_NOT_OK(CallKernels(&batch, scratch));
    row += batch.areas.rows;
    cut.push_back(std::move(batch));
  }
  return cut;
}

void Delivery::Compute(int64_t batch, Scratch& scratch) {
  Batch complete;
  int64_t batches = 1;
  {
    std::lock_guard lock(*mutex_);
    const auto found = pending_.find(batch);
    if (*pass_->cancelled || found == pending_.end()) return;
    complete = found->second.batch;
    batches = found->second.batches;
  }
  if (batches > 1) {
    auto cut = Cut(complete, batches, scratch);
    std::lock_guard lock(*mutex_);
    if (*pass_->cancelled) return;
    if (!cut.ok()) return FailLocked(pass_->LastWindow(batch), cut.status());
    Pending& run = pending_[batch];
    run.cut = *std::move(cut);
    run.batch = {};
    return BecameReadyLocked(batch);
  }
  Status status = CallKernels(&complete, scratch);
  std::lock_guard lock(*mutex_);
  if (*pass_->cancelled) return;
  if (!status.ok()) return FailLocked(pass_->LastWindow(batch), std::move(status));
  FinishLocked(std::move(complete));
}

void Delivery::FinishLocked(Batch batch) {
  const int64_t index = batch.index;
  pending_[index].batch = std::move(batch);
  BecameReadyLocked(index);
}

Status Delivery::CallKernels(Batch* batch, Scratch& scratch) const {
  pass_->dataset->packed.Write(batch->block->data(), batch->areas);
  const Kernels& kernels = pass_->dataset->kernels;
  if (kernels.empty()) return Status::OK();
  const std::vector<uint64_t>& keys = pass_->options.kernel_keys;
  const WorkTimer timer(&pass_->dataset->counters.kernel_ns);
  const SpanTimer span(&pass_->dataset->spans, Stage::kKernels, {.index = batch->index});
  ARROW_ASSIGN_OR_RAISE(batch->failed_kernel,
                        kernels.Run(batch->block->data(), batch->areas, keys, scratch));
  if (batch->failed_kernel >= 0) {
    batch->failed_key = keys[static_cast<size_t>(batch->failed_kernel)];
  }
  pass_->dataset->counters.kernel_calls += static_cast<int64_t>(kernels.size());
  return Status::OK();
}

// Handing out -------------------------------------------------------------------------

void Delivery::FailLocked(int64_t window, Status status) noexcept {
  if (window < failed_window_) {
    failed_window_ = window;
    failure_ = std::move(status);
  }
  WakeLocked();
}

void Delivery::WakeLocked() {
  ++wakes_;
  ready_.notify_all();
}

void Delivery::WakeForWorkLocked() {
  if (!pass_->cpu->has_threads()) WakeLocked();
}

Result<std::optional<Batch>> Delivery::Next(std::chrono::milliseconds timeout,
                                            bool* done) {
  // A closed scan may have outlived the dataset.
  if (*pass_->cancelled) return PassClosed();
  Counters& counters = pass_->dataset->counters;
  const Timer timer(&counters.wait_ns);
  const CpuTimer cpu_timer(pass_->cpu->has_threads() ? nullptr : &counters.next_cpu_ns);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  PendingBatches::node_type node;  // freed without the lock
  std::unique_lock lock(*mutex_);
  const SpanTimer span(&pass_->dataset->spans, Stage::kWait, {.index = next_batch_});
  while (true) {
    if (*pass_->cancelled) return PassClosed();
    *done = next_batch_ == pass_->batches;
    if (*done) return std::nullopt;
    if (failed_window_ == kWholePass) return failure_;
    // Before a batch is taken, which would be lost without memory for this.
    if (pass_->options.run_batches > 1) CutRunsLocked();
    if (ReadyLocked()) break;
    if (!Wants(pass_->LastWindow(next_batch_))) {
      const auto kind = KindOf(failure_);
      const bool lost = kind == ErrorKind::kCorruptFile || kind == ErrorKind::kStorage;
      if (const auto group = RowGroupOf(failure_); group && lost) {
        damage_ = Damage{failed_window_, *group};
      }
      return failure_;
    }
    // A task that has thrown might be what the batch waits for.
    for (const Executor* executor : {pass_->cpu, pass_->fetch.io}) {
      if (Status fault = executor->fault(); !fault.ok()) return fault;
    }
    const int64_t wakes = wakes_;
    lock.unlock();
    const bool ran = pass_->cpu->RunOne() || pass_->fetch.io->RunOne();
    lock.lock();
    if (ran && std::chrono::steady_clock::now() < deadline) continue;
    const auto woken = [&] { return wakes_ != wakes; };
    if (ran || !ready_.wait_until(lock, deadline, woken)) return std::nullopt;
  }
  const auto found = NextLocked();
  Pending& pending = found->second;
  const bool in_run = pending.batches > 1;
  const int64_t number = next_batch_ - found->first;
  Batch& next = in_run ? pending.cut[static_cast<size_t>(number)] : pending.batch;
  // Only to be looked at: it stays the next one.
  if (next.failed_kernel >= 0) {
    Batch shown = next;  // arrow::Result ends the process if its own copy throws
    return shown;
  }
  ++next_batch_;
  if (number + 1 == pending.batches) {
    node = pending_.extract(found);
    if (in_run) --runs_ahead_;
    for (const std::shared_ptr<Window>& window : pending.windows) {
      // A batch may be handed out while others of the window are filled.
      if (--window->undelivered == 0 && window->unfilled == 0) work_->Delivered(window);
    }
  }
  Batch batch = std::move(next);
  batch.window = pass_->LastWindow(batch.index);
  batch.block->MarkLent();
  counters.batches += 1;
  counters.rows += batch.areas.rows;
  counters.batch_bytes += batch.areas.bytes;
  return batch;
}

Delivery::PendingBatches::iterator Delivery::NextLocked() {
  auto after = pending_.upper_bound(next_batch_);
  if (after == pending_.begin()) return pending_.end();
  const auto& [first, pending] = *--after;
  return next_batch_ < first + pending.batches ? after : pending_.end();
}

bool Delivery::ReadyLocked() {
  const auto found = NextLocked();
  return found != pending_.end() && found->second.ready;
}

bool Delivery::ready() {
  std::lock_guard lock(*mutex_);
  return ReadyLocked();
}

bool Delivery::waits() {
  if (*pass_->cancelled || !pass_->cpu->has_threads()) return false;
  std::lock_guard lock(*mutex_);
  if (next_batch_ == pass_->batches) return false;
  if (!Wants(pass_->LastWindow(next_batch_))) return false;
  return !ReadyLocked();
}

std::optional<Damage> Delivery::damage() {
  std::lock_guard lock(*mutex_);
  return damage_;
}

Delivery::PendingBatches Delivery::DropLocked() {
  PendingBatches dropped;
  dropped.swap(pending_);
  return dropped;
}

std::string Delivery::DescribeLocked() {
  if (next_batch_ == pass_->batches) return "delivery: all batches are handed out\n";
  const int64_t last = pass_->LastWindow(next_batch_);
  std::string text = "delivery: batch " + std::to_string(next_batch_) + " of " +
                     std::to_string(pass_->batches);
  if (ReadyLocked()) return text + " is ready\n";
  if (!Wants(last)) {
    return text + " failed with window " + std::to_string(failed_window_) + "\n";
  }
  const auto found = NextLocked();
  const int64_t rows = found == pending_.end() ? 0 : found->second.filled_rows;
  if (rows >= pass_->BatchRows(next_batch_)) {
    return text + " waits for: rows joined or kernels called\n";
  }
  return text + " waits for: window " + std::to_string(last) + " filled (" +
         std::to_string(rows) + " of " + std::to_string(pass_->BatchRows(next_batch_)) +
         " rows are)\n";
}

}  // namespace fastload
