// What a scan makes of the parts that its windows have filled: batches, after kernels.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fastload/scan/scan.h"

namespace fastload {

void Scan::FilledLocked(const std::shared_ptr<Window>& window) {
  for (Part& part : window->parts) {
    Pending& pending = pending_[part.batch];
    pending.filled_rows += part.rows;
    if (part.whole) {
      pending.batch = {part.batch, std::move(part.block), std::move(part.areas)};
      pending.window = window;
      pending.ready = dataset_->kernels.empty();
      if (pending.ready) continue;
      cpu_->Submit(Priority(window->index, -1),
                   [self = shared_from_this(), index = window->index,
                    batch = part.batch](Scratch& scratch) {
                     self->Attempt(index, [&] { self->Compute(batch, scratch); });
                   });
      continue;
    }
    pending.parts.push_back(std::move(part));
    if (pending.filled_rows < BatchRows(pending.parts.back().batch)) continue;
    cpu_->Submit(Priority(window->index, -1),
                 [self = shared_from_this(), index = window->index,
                  batch = pending.parts.back().batch](Scratch& scratch) {
                   self->Attempt(index, [&] { self->Merge(batch, scratch); });
                 });
  }
  window->order = RowOrder{};
  window->before.reset();
  window->blocks.clear();
  if (plan_.shuffled) spare_shuffles_.push_back(std::move(window->shuffle));
  if (window->undelivered == 0) CloseWindowLocked(window);
  WakeLocked();
}

void Scan::CloseWindowLocked(const std::shared_ptr<Window>& window) {
  open_.erase(window->index);
  OpenWindowsLocked();
  LeaveToNextLocked();
}

void Scan::Merge(int64_t batch, Scratch& scratch) {
  std::vector<Part> parts;
  {
    std::lock_guard lock(mutex_);
    const auto found = pending_.find(batch);
    if (*cancelled_ || found == pending_.end()) return;
    parts = std::move(found->second.parts);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.offset < b.offset; });
  std::vector<Layout::Source> sources;
  sources.reserve(parts.size());
  for (const Part& part : parts) sources.push_back({part.block->data(), &part.areas});
  const SpanTimer span(&dataset_->spans, Stage::kMerge, {.index = batch});
  Batch merged{.index = batch, .areas = dataset_->layout.PlaceMerged(sources)};
  auto block = batch_pool_->Allocate(merged.areas.bytes);
  Status status = block.status();
  if (status.ok()) {
    // Moved: once it is handed out, the consumer alone holds it.
    merged.block = *std::move(block);
    dataset_->layout.Merge(sources, merged.block->data(), merged.areas);
    dataset_->counters.merged_batches += 1;
    status = CallKernels(&merged, scratch);
  }
  std::lock_guard lock(mutex_);
  if (*cancelled_) return;
  if (!status.ok()) return FailLocked(LastWindow(batch), status);
  Pending& pending = pending_[batch];
  pending.batch = std::move(merged);
  pending.ready = true;
  WakeLocked();
}

void Scan::Compute(int64_t batch, Scratch& scratch) {
  Batch complete;
  {
    std::lock_guard lock(mutex_);
    const auto found = pending_.find(batch);
    if (*cancelled_ || found == pending_.end()) return;
    complete = found->second.batch;
  }
  const Status status = CallKernels(&complete, scratch);
  std::lock_guard lock(mutex_);
  if (*cancelled_) return;
  if (!status.ok()) return FailLocked(LastWindow(batch), status);
  Pending& pending = pending_[batch];
  pending.batch = std::move(complete);
  pending.ready = true;
  WakeLocked();
}

Status Scan::CallKernels(Batch* batch, Scratch& scratch) const {
  const Kernels& kernels = dataset_->kernels;
  if (kernels.empty()) return Status::OK();
  Timer timer(&dataset_->counters.kernel_ns);
  const SpanTimer span(&dataset_->spans, Stage::kKernels, {.index = batch->index});
  ARROW_ASSIGN_OR_RAISE(
      batch->failed_kernel,
      kernels.Run(batch->block->data(), batch->areas, options_.kernel_keys, scratch));
  if (batch->failed_kernel >= 0) {
    batch->failed_key = options_.kernel_keys[static_cast<size_t>(batch->failed_kernel)];
  }
  dataset_->counters.kernel_calls += static_cast<int64_t>(kernels.size());
  return Status::OK();
}

}  // namespace fastload
