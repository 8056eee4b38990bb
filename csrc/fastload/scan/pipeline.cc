#include "fastload/scan/pipeline.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fastload/scan/plan_check.h"

namespace fastload {
namespace {

std::unique_ptr<Executor> MakeExecutor(const std::string& name, int32_t threads) {
  return threads > 0 ? MakeThreadPool(name, threads) : MakeInlineExecutor();
}

}  // namespace

Pipeline::Pipeline(std::vector<FileSpec> files, std::vector<ColumnSpec> columns,
                   const std::vector<OutputSpec>& outputs, PipelineOptions options,
                   std::vector<FileSelection> selections)
    : budget_(options.batch_memory_bytes + options.staging_memory_bytes +
              options.fetch_memory_bytes + options.kept_memory_bytes),
      dataset_(std::move(files), std::move(options.remote), std::move(columns), outputs,
               options.kernels, std::move(selections), options.fetch_memory_bytes,
               options.verify_crc, options.fill_memory_bytes, options.kept_memory_bytes,
               options.dictionary_bytes),
      batches_(
          options.batch_source ? std::move(options.batch_source) : MakePrivateMemory(),
          options.batch_memory_bytes),
      staging_(MakePrivateMemory(), options.staging_memory_bytes),
      fetches_(MakePrivateMemory(), options.fetch_memory_bytes),
      page_hole_bytes_(options.page_hole_bytes),
      tables_(options.page_table_bytes > 0
                  ? std::make_unique<PageTables>(options.page_table_bytes)
                  : nullptr),
      io_(MakeExecutor("fastload-io", options.io_threads)),
      cpu_(MakeExecutor("fastload-cpu", options.threads)) {}

Pipeline::~Pipeline() { Close(); }

Result<std::shared_ptr<Scan>> Pipeline::Start(ReadPlan plan, const ScanOptions& options,
                                              Scan* before) {
  return CatchParquet([&] { return MakeScan(std::move(plan), options, before); });
}

Result<std::shared_ptr<Scan>> Pipeline::Take(const RowNumbers& numbers,
                                             std::span<const int64_t> indices,
                                             const ScanOptions& options) {
  return CatchParquet([&]() -> Result<std::shared_ptr<Scan>> {
    ARROW_ASSIGN_OR_RAISE(ReadPlan plan,
                          numbers.Plan(indices, [&](int32_t file, int32_t row_group) {
                            return dataset_.Bits(file, row_group);
                          }));
    return MakeScan(std::move(plan), options, nullptr);
  });
}

Result<std::shared_ptr<Scan>> Pipeline::MakeScan(ReadPlan plan,
                                                 const ScanOptions& options,
                                                 Scan* before) {
  ARROW_RETURN_NOT_OK(CheckPlan(plan, dataset_));
  if (options.open_windows < 1 || options.segment_bytes < 1 ||
      options.request_bytes < 1 || options.hole_bytes < 0) {
    return Status::Invalid("Expected at least one window and one byte at a time");
  }
  if (options.open_windows < plan.lanes()) {
    return Status::Invalid("Expected a window of each of ", plan.lanes(),
                           " lanes at a time, got ", options.open_windows);
  }
  if (options.kernel_keys.size() != dataset_.kernels.size()) {
    return Status::Invalid("Expected a key for each of ", dataset_.kernels.size(),
                           " kernels, got ", options.kernel_keys.size());
  }
  std::lock_guard lock(mutex_);
  if (closed_) return DatasetClosed();
  std::erase_if(scans_, [](const std::weak_ptr<Scan>& scan) { return scan.expired(); });
  auto scan = std::make_shared<Scan>(
      &dataset_, cpu_.get(),
      FetchContext{io_.get(), &fetches_, &dataset_.files, &dataset_.counters,
                   &dataset_.spans, page_hole_bytes_, tables_.get()},
      &batches_, &staging_, std::move(plan), options, next_priority_);
  next_priority_ = scan->end_priority();
  scans_.push_back(scan);
  if (before == nullptr) {
    scan->Start();
  } else {
    before->StartNext(scan);
  }
  return scan;
}

std::vector<std::string> Pipeline::UnitNames() const {
  std::vector<std::string> names;
  names.reserve(dataset_.units.size());
  for (const Unit& unit : dataset_.units) {
    names.push_back(
        unit.columns.empty()
            ? ""
            : dataset_.columns[static_cast<size_t>(unit.columns.front())].name);
  }
  return names;
}

void Pipeline::Close() noexcept {
  std::vector<std::weak_ptr<Scan>> scans;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    scans.swap(scans_);
  }
  for (const auto& weak : scans) {
    if (auto scan = weak.lock()) scan->Close();
  }
  // Close the queue first, because tasks wait for what the client brings.
  if (auto* const remote = dataset_.files.remote()) remote->Close();
  // Queued tasks of cancelled scans do nothing. The CPU pool is closed first: its tasks
  // may wait for reads, and even request reads, while a closed scan's reads submit no new
  // tasks.
  cpu_->Close();
  io_->Close();
  dataset_.files.CloseAll();
  dataset_.DropKept();
  // The slabs of the process keep the memory for the next dataset.
  for (BlockPool* const pool : {&batches_, &staging_, &fetches_, &dataset_.page_blocks}) {
    pool->Drain();
  }
}

}  // namespace fastload
