// What a pass is made of: its plan, its options, and what it borrows from the Pipeline.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/base/platform.h"
#include "fastload/collate/shuffle.h"
#include "fastload/fetch/fetch.h"
#include "fastload/plan/read_plan.h"
#include "fastload/plan/row_copies.h"
#include "fastload/scan/dataset.h"
#include "fastload/scan/lanes.h"

namespace fastload {

struct ScanOptions {
  int32_t open_windows = 2;            // whose memory is open at a time
  int64_t fetch_bytes = 256 << 20;     // compressed bytes in memory
  uint32_t bucket_rows = kBucketRows;  // of a shuffle; see MakeShuffle
  // See Window::cache_bytes. Where the L2 cache is small, L3 is near enough.
  int64_t cache_bytes = std::max(2 * CoreCacheBytes(), int64_t{2} << 20);
  int64_t segment_bytes = 8 << 20;  // of one read
  int64_t request_bytes = 8 << 20;  // of one request to a store
  int64_t hole_bytes = 64 << 10;    // that a request reads along
  // The most whole batches of a window that share a block until they are handed out.
  int64_t run_batches = 1;
  // Of each kernel, what the seeds of rows are made of.
  std::vector<uint64_t> kernel_keys;
};

// What the schedule of windows, the delivery of batches and the tasks of one pass share.
// All but the two flags stays the same, so it is read without a lock.
struct Pass {
  Pass(Dataset* dataset, Executor* cpu, FetchContext fetch, BlockPool* batch_pool,
       BlockPool* staging_pool, ReadPlan plan, ScanOptions options,
       int64_t first_priority);

  int64_t BatchRows(int64_t batch) const;
  // The latest window of which the batch takes rows.
  int64_t LastWindow(int64_t batch) const { return lanes.LastWindow(batch); }
  // Of the tasks and reads for a unit of a window; unit -1: of the window itself.
  int64_t Priority(int64_t window, int32_t unit) const;
  // What reads are made with; those of a pass that has not begun are counted apart.
  FetchContext Fetch() const;

  Dataset* const dataset;
  Executor* const cpu;
  const FetchContext fetch;
  BlockPool* const batch_pool;
  BlockPool* const staging_pool;
  const ReadPlan plan;
  const ScanOptions options;
  const int64_t first_priority;
  const int64_t batches;
  const Lanes lanes;
  // (file, row group) of the row groups that several lanes read.
  const std::set<std::pair<int64_t, int64_t>> shared_groups;
  std::vector<int64_t> first_ordered;  // of each window, in plan.orders; empty without
  const std::unique_ptr<CopiesByGroup> copies = std::make_unique<CopiesByGroup>();

  // Set with the scan's mutex held.
  const std::shared_ptr<std::atomic<bool>> cancelled =
      std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> begun = true;  // false: expected after the pass that runs
};

}  // namespace fastload
