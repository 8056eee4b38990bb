#include "fastload/scan/pipeline.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/array.h"
#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/files.h"
#include "bindings/fork_guard.h"
#include "bindings/remote_queue.h"
#include "bindings/scan.h"
#include "bindings/shared_batches.h"
#include "bindings/tensor_memory.h"
#include "bindings/without_gil.h"
#include "fastload/base/slabs.h"
#include "fastload/plan/output_check.h"
#include "fastload/plan/row_selection.h"
#include "fastload/share/shared_batches.h"
#include "pybind11/numpy.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

const char* StageName(Stage stage) {
  switch (stage) {
    case Stage::kPrepare:
      return "prepare";
    case Stage::kRead:
      return "read";
    case Stage::kRequest:
      return "request";
    case Stage::kStage:
      return "stage";
    case Stage::kCount:
      return "count";
    case Stage::kFill:
      return "fill";
    case Stage::kMerge:
      return "merge";
    case Stage::kKernels:
      return "kernels";
    case Stage::kWait:
      return "wait";
  }
  return "";
}

class PyPipeline {
 public:
  PyPipeline(std::shared_ptr<Pipeline> pipeline, std::shared_ptr<TensorMemory> memory,
             std::shared_ptr<const RemoteQueue> remote)
      : memory_(std::move(memory)),
        remote_(std::move(remote)),
        pipeline_(std::move(pipeline)) {}
  // Joins threads, so without the GIL.
  ~PyPipeline() {
    const WithoutGil without_gil;
    pipeline_.Drop();
  }
  PyPipeline(const PyPipeline&) = delete;
  PyPipeline& operator=(const PyPipeline&) = delete;

  // Moves the content out of the plan, which is large for many row groups. `self` is this
  // object in Python.
  std::unique_ptr<PyScan> Start(py::object self, ReadPlan& plan,
                                const ScanOptions& options, const PyScan* before) {
    Scan* const scan_before = before == nullptr ? nullptr : before->get();
    auto scan = CallWithoutGil(
        [&] { return pipeline_->Start(std::move(plan), options, scan_before); });
    return std::make_unique<PyScan>(ValueOrRaise(std::move(scan)), memory_,
                                    std::move(self));
  }

  // Returns the batch with the rows of `indices`.
  std::unique_ptr<LentBatch> Take(const RowNumbers& numbers,
                                  const Array<int64_t>& indices,
                                  const ScanOptions& options) {
    const std::span wanted(indices.data(), static_cast<size_t>(indices.size()));
    auto scan = CallWithoutGil([&] { return pipeline_->Take(numbers, wanted, options); });
    PyScan taking(ValueOrRaise(std::move(scan)), memory_, py::none());
    return taking.Next();
  }

  void Close() {
    if (pipeline_.mine()) pipeline_->Close();
  }

  py::dict Counts() const {
    const Counters& c = pipeline_->counters();
    py::dict counts;
    counts["read_requests"] = c.read_requests.load();
    counts["read_bytes"] = c.read_bytes.load();
    counts["read_ns"] = c.read_ns.load();
    const Counters& ahead = pipeline_->counters_ahead();
    counts["read_ahead_requests"] = ahead.read_requests.load();
    counts["read_ahead_bytes"] = ahead.read_bytes.load();
    counts["read_ahead_ns"] = ahead.read_ns.load();
    counts["decoded_values"] = c.decoded_values.load();
    counts["decoded_pages"] = c.decoded_pages.load();
    counts["decode_ns"] = c.decode_ns.load();
    counts["kernel_calls"] = c.kernel_calls.load();
    counts["kernel_ns"] = c.kernel_ns.load();
    counts["cpu_ns"] = pipeline_->CpuNs();
    counts["batches"] = c.batches.load();
    counts["rows"] = c.rows.load();
    counts["batch_bytes"] = c.batch_bytes.load();
    counts["wait_ns"] = c.wait_ns.load();
    counts["merged_batches"] = c.merged_batches.load();
    counts["dictionary_bytes"] = pipeline_->dictionaries().bytes;
    counts["dictionaries_served"] = pipeline_->dictionaries().served;
    counts["memory_used"] = pipeline_->batch_memory().used_bytes +
                            pipeline_->staging_memory().used_bytes +
                            pipeline_->fetch_memory().used_bytes + remote_bytes();
    counts["memory_mapped_total"] = pipeline_->batch_memory().mapped_total +
                                    pipeline_->staging_memory().mapped_total +
                                    pipeline_->fetch_memory().mapped_total;
    return counts;
  }

  BatchSender::Held Memory() const {
    const auto bytes = [](const BlockPool::Stats& stats) {
      return stats.used_bytes + stats.cached_bytes;
    };
    const KeptPages::Stats kept = pipeline_->kept_memory();
    return {bytes(pipeline_->fetch_memory()) + remote_bytes(),
            bytes(pipeline_->staging_memory()),
            bytes(pipeline_->batch_memory()),
            kept.bytes,
            kept.limit,
            kept.served,
            Slabs::OfProcess().stats().spare_bytes};
  }

  void StartSpans(size_t capacity) { pipeline_->StartSpans(capacity); }

  // Returns (spans, names of units, number of dropped spans).
  py::tuple StopSpans() {
    const SpanRecorder::Recorded recorded = pipeline_->StopSpans();
    py::list spans(recorded.spans.size());
    for (size_t i = 0; i < recorded.spans.size(); ++i) {
      const Span& span = recorded.spans[i];
      spans[i] =
          py::make_tuple(StageName(span.stage), span.thread, span.start_ns, span.end_ns,
                         span.subject.index, span.subject.unit, span.subject.bytes);
    }
    return py::make_tuple(std::move(spans), pipeline_->UnitNames(), recorded.dropped);
  }

  void LimitKept(int64_t bytes) { pipeline_->LimitKept(bytes); }

  int64_t lent_bytes() const { return pipeline_->batch_memory().lent_bytes; }

 private:
  int64_t remote_bytes() const { return remote_ == nullptr ? 0 : remote_->held_bytes(); }

  std::shared_ptr<TensorMemory> memory_;  // memory of batches; null: the core's
  std::shared_ptr<const RemoteQueue> remote_;
  ForkGuard<Pipeline> pipeline_;
};

// Returns the selection of each file from None, or from (bits, offsets): see
// FileSelection. The bits are borrowed.
std::vector<FileSelection> Selections(const py::sequence& selections,
                                      const std::vector<FileSpec>& files) {
  if (selections.empty()) return {};
  if (selections.size() != files.size()) {
    throw py::value_error("Expected a selection for each of " +
                          std::to_string(files.size()) + " files, got " +
                          std::to_string(selections.size()));
  }
  std::vector<FileSelection> result(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const py::object entry = selections[i];
    if (entry.is_none()) continue;
    const auto [bits, offsets] =
        entry.cast<std::tuple<py::object, std::vector<int64_t>>>();
    // A conversion would make a copy that nobody keeps alive.
    using Bytes = py::array_t<uint8_t, py::array::c_style>;
    if (!py::isinstance<Bytes>(bits)) {
      throw py::type_error("Expected a selection's bits as contiguous uint8");
    }
    const auto array = py::reinterpret_borrow<Bytes>(bits);
    result[i] = {.offsets = offsets, .bits = array.data(), .bytes = array.nbytes()};
    RaiseIfError(result[i].Check(files[i].footer->row_group_rows()));
  }
  return result;
}

std::unique_ptr<PyPipeline> MakePipeline(
    const std::vector<FileTuple>& files, std::vector<ColumnSpec> columns,
    const std::vector<OutputSpec>& outputs, int32_t threads, int32_t io_threads,
    int64_t batch_memory_bytes, int64_t staging_memory_bytes, int64_t fetch_memory_bytes,
    bool verify_crc, const py::sequence& selections, const PySender* sender,
    const py::object& allocate, const PyRemoteQueue* remote,
    std::vector<KernelSpec> kernels, int64_t fill_memory_bytes, int64_t kept_memory_bytes,
    int64_t page_hole_bytes, int64_t page_table_bytes, int64_t dictionary_bytes) {
  RaiseIfError(CheckOutputs(columns, outputs));
  RaiseIfError(CheckKernels(kernels, outputs));
  std::vector<FileSpec> specs = FileSpecs(files);
  std::vector<FileSelection> selected = Selections(selections, specs);
  PipelineOptions options{.threads = threads,
                          .io_threads = io_threads,
                          .batch_memory_bytes = batch_memory_bytes,
                          .staging_memory_bytes = staging_memory_bytes,
                          .fetch_memory_bytes = fetch_memory_bytes,
                          .fill_memory_bytes = fill_memory_bytes,
                          .kept_memory_bytes = kept_memory_bytes,
                          .dictionary_bytes = dictionary_bytes,
                          .page_hole_bytes = page_hole_bytes,
                          .page_table_bytes = page_table_bytes,
                          .verify_crc = verify_crc};
  options.kernels = std::move(kernels);
  std::shared_ptr<RemoteQueue> queue;
  if (remote != nullptr) queue = options.remote = remote->queue();
  std::shared_ptr<TensorMemory> memory;
  if (sender != nullptr) {
    options.batch_source = sender->Memory();
  } else if (!allocate.is_none()) {
    memory = std::make_shared<TensorMemory>(allocate);
    options.batch_source = memory->Source();
  }
  return std::make_unique<PyPipeline>(
      std::make_shared<Pipeline>(std::move(specs), std::move(columns), outputs,
                                 std::move(options), std::move(selected)),
      std::move(memory), std::move(queue));
}

}  // namespace

void RegisterPipeline(py::module_& m) {
  py::class_<RowNumbers>(m, "RowNumbers",
                         "The numbers of a dataset's rows: row i is the i-th selected\n"
                         "row of the row groups, one after another.")
      .def(py::init([](std::vector<int32_t> file, std::vector<int32_t> row_group,
                       const std::vector<int64_t>& rows) {
             return ValueOrRaise(
                 RowNumbers::Make(std::move(file), std::move(row_group), rows));
           }),
           py::kw_only(), py::arg("file"), py::arg("row_group"), py::arg("rows"))
      .def_property_readonly("rows", &RowNumbers::rows, "Rows of all row groups.");
  py::class_<PyPipeline>(m, "Pipeline",
                         "The owner of the threads and the memory of one dataset.")
      .def(py::init(&MakePipeline), py::kw_only(), py::arg("files"), py::arg("columns"),
           py::arg("outputs"), py::arg("threads"), py::arg("io_threads"),
           py::arg("batch_memory_bytes"), py::arg("staging_memory_bytes"),
           py::arg("fetch_memory_bytes"), py::arg("verify_crc") = false,
           py::arg("selections") = py::tuple(), py::arg("sender") = nullptr,
           py::arg("allocate") = py::none(), py::arg("remote") = nullptr,
           py::arg("kernels") = std::vector<KernelSpec>(),
           py::arg("fill_memory_bytes") = INT64_MAX, py::arg("kept_memory_bytes") = 0,
           py::arg("page_hole_bytes") = kPageHoleBytes, py::arg("page_table_bytes") = 0,
           py::arg("dictionary_bytes") = 0,
           // Keeps the selections alive, whose bits the pipeline borrows.
           py::keep_alive<1, 11>())
      .def(
          "start",
          // Not py::keep_alive<0, 1>: pybind11 3.1 then ends the process where an
          // argument does not convert.
          [](const py::object& self, ReadPlan& plan, int32_t open_windows,
             int64_t fetch_bytes, int64_t segment_bytes, int64_t request_bytes,
             int64_t hole_bytes, const PyScan* before, std::vector<uint64_t> kernel_keys,
             int64_t run_batches) {
            return self.cast<PyPipeline&>().Start(
                self, plan,
                {.open_windows = open_windows,
                 .fetch_bytes = fetch_bytes,
                 .segment_bytes = segment_bytes,
                 .request_bytes = request_bytes,
                 .hole_bytes = hole_bytes,
                 .run_batches = std::max<int64_t>(1, run_batches),
                 .kernel_keys = std::move(kernel_keys)},
                before);
          },
          py::arg("plan"), py::kw_only(), py::arg("open_windows"), py::arg("fetch_bytes"),
          py::arg("segment_bytes"), py::arg("request_bytes"), py::arg("hole_bytes"),
          py::arg("before") = nullptr, py::arg("kernel_keys") = std::vector<uint64_t>(),
          py::arg("run_batches") = 1,
          "Begins a pass, and takes the content of the plan, which is empty\n"
          "afterwards. With `before`, prepares the pass that is expected after the\n"
          "pass `before`.\n"
          "run_batches: the most small batches of a window that share memory until "
          "they\n"
          "are handed out.\n"
          "Raises RuntimeError once closed.")
      .def(
          "take",
          [](PyPipeline& self, const RowNumbers& numbers, const Array<int64_t>& indices,
             int64_t fetch_bytes, int64_t segment_bytes, int64_t request_bytes,
             int64_t hole_bytes, std::vector<uint64_t> kernel_keys) {
            return self.Take(numbers, indices,
                             {.open_windows = 1,
                              .fetch_bytes = fetch_bytes,
                              .segment_bytes = segment_bytes,
                              .request_bytes = request_bytes,
                              .hole_bytes = hole_bytes,
                              .kernel_keys = std::move(kernel_keys)});
          },
          py::arg("numbers"), py::arg("indices"), py::kw_only(), py::arg("fetch_bytes"),
          py::arg("segment_bytes"), py::arg("request_bytes"), py::arg("hole_bytes"),
          py::arg("kernel_keys") = std::vector<uint64_t>(),
          "Returns one batch with the rows of `indices`, each in [0, numbers.rows), in\n"
          "their order. Thread-safe. Raises RuntimeError once closed.")
      // Joins threads, so without the GIL.
      .def("close", &PyPipeline::Close, py::call_guard<WithoutGil>(),
           "Ends all passes and threads; batches stay valid. Idempotent.")
      .def("counts", &PyPipeline::Counts,
           "Returns counters of the work so far: requests, bytes, values, nanoseconds.")
      .def("start_spans", &PyPipeline::StartSpans, py::arg("capacity"),
           "Starts recording when each stage works, on which thread; up to `capacity`\n"
           "spans.")
      .def("stop_spans", &PyPipeline::StopSpans,
           "Stops recording. Returns (spans, the first column of each unit, number of\n"
           "dropped spans). A span is (stage, thread, start, end, file or batch or\n"
           "window, unit, bytes), with times in nanoseconds of the monotonic clock.")
      .def_property_readonly(
          "memory", &PyPipeline::Memory,
          "Bytes held, in use and for reuse: for reads, for staged rows, for batches, "
          "and\n"
          "of pages kept from one pass to the next; the most bytes of kept pages; how\n"
          "often a kept column chunk was read; bytes that the process keeps mapped for "
          "its\n"
          "next dataset.")
      .def("limit_kept", &PyPipeline::LimitKept, py::arg("limit_bytes"),
           "Sets the most bytes of kept pages, and frees pages that exceed the limit.")
      .def_property_readonly("lent_bytes", &PyPipeline::lent_bytes,
                             "Bytes of batch memory that the consumer holds.");
}

}  // namespace fastload
