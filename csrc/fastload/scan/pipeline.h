// The owner of threads and memory: lives as long as a dataset, and runs its passes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"
#include "fastload/fetch/remote.h"
#include "fastload/plan/read_plan.h"
#include "fastload/scan/dataset.h"
#include "fastload/scan/scan.h"

namespace fastload {

struct PipelineOptions {
  int32_t threads = 1;     // of the CPU pool; 0: work is done by whoever waits in Next()
  int32_t io_threads = 1;  // of the I/O pool; 0 likewise
  // Memory of past batches, of what was staged for them, and of past reads is kept up
  // to these totals.
  int64_t batch_memory_bytes = 0;
  int64_t staging_memory_bytes = 0;
  int64_t fetch_memory_bytes = 0;
  // A page whose checksum is not that of its bytes is an ErrorKind::kCorruptFile.
  bool verify_crc = false;
  // Who brings the bytes of remote files; null: there are none.
  std::shared_ptr<RemoteQueue> remote;
  // Rows come from the blocks of this cache instead of the files; null: there is none.
  std::shared_ptr<DecodedQueue> blocks;
  // Called on each batch.
  std::vector<KernelSpec> kernels;
  // What batches lie in; null: private memory.
  std::unique_ptr<MemorySource> batch_source;
};

class Pipeline {
 public:
  // `selections`, by file, is empty if all rows stay.
  Pipeline(std::vector<FileSpec> files, std::vector<ColumnSpec> columns,
           const std::vector<OutputSpec>& outputs, PipelineOptions options,
           std::vector<FileSelection> selections = {});
  ~Pipeline();

  // Begins a pass. Scans may outlive the pipeline, closed. An error once it is closed.
  // With `before`, it is the pass that is expected after that one: see Scan::StartNext.
  Result<std::shared_ptr<Scan>> Start(ReadPlan plan, const ScanOptions& options,
                                      Scan* before = nullptr);

  // Ends all passes, joins the threads and closes the files. Batches handed out stay
  // valid. Idempotent.
  void Close();

  // When each stage works, from now on: see SpanRecorder.
  void StartSpans(size_t capacity) { dataset_.spans.Start(capacity); }
  SpanRecorder::Recorded StopSpans() { return dataset_.spans.Stop(); }
  // The column, or the first of the columns, that a unit of a Span decodes.
  std::vector<std::string> UnitNames() const;

  const Layout& layout() const { return dataset_.layout; }
  const Counters& counters() const { return dataset_.counters; }
  const Counters& counters_ahead() const { return dataset_.counters_ahead; }
  BlockPool::Stats batch_memory() const { return batches_.stats(); }
  BlockPool::Stats staging_memory() const { return staging_.stats(); }
  BlockPool::Stats fetch_memory() const { return fetches_.stats(); }

 private:
  Dataset dataset_;
  BlockPool batches_;
  BlockPool staging_;
  BlockPool fetches_;
  std::unique_ptr<Executor> io_;
  std::unique_ptr<Executor> cpu_;

  std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::weak_ptr<Scan>> scans_;
  // Of the next scan: what was begun first is done first.
  int64_t next_priority_ = 0;
};

}  // namespace fastload
