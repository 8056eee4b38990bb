// The pipeline of a dataset: it owns the threads and the memory, and runs the passes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/base/slabs.h"
#include "fastload/base/status.h"
#include "fastload/fetch/byte_stream.h"
#include "fastload/fetch/page_tables.h"
#include "fastload/fetch/remote.h"
#include "fastload/plan/read_plan.h"
#include "fastload/plan/row_numbers.h"
#include "fastload/scan/dataset.h"
#include "fastload/scan/scan.h"

namespace fastload {

struct PipelineOptions {
  // Threads of the CPU pool; 0: the thread that waits in Next() works.
  int32_t threads = 1;
  // Threads of the I/O pool; 0: the thread that waits in Next() reads.
  int32_t io_threads = 1;
  // The most bytes that are kept for reuse, of past batches, of staged rows, and of past
  // reads.
  int64_t batch_memory_bytes = 0;
  int64_t staging_memory_bytes = 0;
  int64_t fetch_memory_bytes = 0;
  // The most bytes of elements that stand for null lists of a fixed size, in all windows.
  int64_t fill_memory_bytes = INT64_MAX;
  // The most bytes of pages that stay in memory from one pass to the next.
  int64_t kept_memory_bytes = 0;
  // The most bytes of decoded dictionaries that stay in memory from one take to the next.
  int64_t dictionary_bytes = 0;
  // The largest hole between two pages of selected rows that is read along.
  int64_t page_hole_bytes = kPageHoleBytes;
  // The most bytes that are kept of which pages column chunks have; 0: none are kept.
  int64_t page_table_bytes = 0;
  // If true, a page with a wrong checksum is an ErrorKind::kCorruptFile.
  bool verify_crc = false;
  // The queue through which a client brings the bytes of remote files; null: all files
  // are local.
  std::shared_ptr<RemoteQueue> remote;
  // Called on each batch.
  std::vector<KernelSpec> kernels;
  // The source of the memory of batches; null: private memory.
  std::unique_ptr<MemorySource> batch_source;
};

class Pipeline {
 public:
  // `selections`, by file, is empty if all rows are selected.
  Pipeline(std::vector<FileSpec> files, std::vector<ColumnSpec> columns,
           const std::vector<OutputSpec>& outputs, PipelineOptions options,
           std::vector<FileSelection> selections = {});
  ~Pipeline();

  // Begins a pass. A scan may outlive the pipeline, but is closed then. Returns an error
  // once the pipeline is closed. With `before`, the pass is expected to follow that
  // scan's pass: see Scan::StartNext.
  Result<std::shared_ptr<Scan>> Start(ReadPlan plan, const ScanOptions& options,
                                      Scan* before = nullptr);

  // Begins a pass over the rows of `indices`, as one batch in their order.
  Result<std::shared_ptr<Scan>> Take(const RowNumbers& numbers,
                                     std::span<const int64_t> indices,
                                     const ScanOptions& options);

  // Ends all passes, joins the threads, closes the files, and lets go of what stays in
  // memory from one pass to the next. Delivered batches stay valid. Idempotent.
  void Close() noexcept;

  // Records from now on when each stage works: see SpanRecorder.
  void StartSpans(size_t capacity) { dataset_.spans.Start(capacity); }
  SpanRecorder::Recorded StopSpans() { return dataset_.spans.Stop(); }
  // Returns, for each unit of a Span, the name of its column or of its first column.
  std::vector<std::string> UnitNames() const;

  const Counters& counters() const { return dataset_.counters; }
  const Counters& counters_ahead() const { return dataset_.counters_ahead; }
  // Returns the CPU time of the threads, and of consumers that do the work in Next().
  int64_t CpuNs() const {
    return dataset_.counters.next_cpu_ns + cpu_->CpuNs() + io_->CpuNs();
  }
  BlockPool::Stats batch_memory() const { return batches_.stats(); }
  BlockPool::Stats staging_memory() const { return staging_.stats(); }
  BlockPool::Stats fetch_memory() const { return fetches_.stats(); }
  KeptPages::Stats kept_memory() const {
    KeptPages::Stats stats = dataset_.kept.stats();
    stats.served += dataset_.kept_rows.served();
    return stats;
  }
  KeptDictionaries::Stats dictionaries() const { return dataset_.dictionaries.stats(); }
  // Sets the most bytes that are kept.
  void LimitKept(int64_t bytes) { dataset_.LimitKept(bytes); }

 private:
  Result<std::shared_ptr<Scan>> MakeScan(ReadPlan plan, const ScanOptions& options,
                                         Scan* before);

  const SlabBudget budget_;
  Dataset dataset_;
  BlockPool batches_;
  BlockPool staging_;
  BlockPool fetches_;
  const int64_t page_hole_bytes_;
  const std::unique_ptr<PageTables> tables_;  // null: none are kept
  std::unique_ptr<Executor> io_;
  std::unique_ptr<Executor> cpu_;

  std::mutex mutex_;  // guards the members below
  bool closed_ = false;
  std::vector<std::weak_ptr<Scan>> scans_;
  // The priority of the next scan: passes that began first are worked on first.
  int64_t next_priority_ = 0;
};

}  // namespace fastload
