#include "bindings/scan.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/without_gil.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

PyScan::~PyScan() {
  Close();
  const WithoutGil without_gil;
  scan_.Drop();
}

std::unique_ptr<LentBatch> PyScan::Next() {
  if (!scan_.mine()) {
    throw std::runtime_error("Expected a pass of this process, got one from before fork");
  }
  if (interrupted_) return std::move(interrupted_);
  // The interval at which Ctrl-C is checked.
  constexpr std::chrono::milliseconds kSlice{50};
  // Made first, so that no batch is lost for want of memory.
  auto lent = std::make_unique<LentBatch>(LentBatch{{}, memory_});
  while (true) {
    bool done = false;
    std::optional<Batch> ready =
        ValueOrRaise(CallWithoutGil([&] { return scan_->Next(kSlice, &done); }));
    if (ready) {
      lent->batch = std::move(*ready);
      if (PyErr_CheckSignals() == 0) return lent;
      // A handler of signals, or another thread, may have closed the scan.
      if (!closed_) interrupted_ = std::move(lent);
      throw py::error_already_set();
    }
    if (done) return nullptr;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void PyScan::Close() {
  closed_ = true;
  interrupted_.reset();
  const WithoutGil without_gil;
  if (scan_.mine()) scan_->Close();
}

void PyScan::Begin() {
  if (scan_.mine()) scan_->Begin();
}

bool PyScan::opened_all() const { return scan_.mine() && scan_->opened_all(); }

bool PyScan::ready() const { return scan_.mine() && (interrupted_ || scan_->ready()); }

bool PyScan::waits() const { return scan_.mine() && !interrupted_ && scan_->waits(); }

std::string PyScan::Describe() const {
  return scan_.mine() ? scan_->Describe() : "a pass from before fork\n";
}

std::optional<Damage> PyScan::damage() const {
  return scan_.mine() ? scan_->damage() : std::nullopt;
}

void RegisterScan(py::module_& m) {
  py::class_<LentBatch>(m, "LentBatch", py::buffer_protocol(),
                        "One batch in memory of the core: a writable buffer of bytes.")
      .def_buffer([](LentBatch& lent) {
        return py::buffer_info(lent.batch.block->data(),
                               static_cast<py::ssize_t>(lent.batch.areas.bytes));
      })
      .def_property_readonly(
          "rows", [](const LentBatch& lent) { return lent.batch.areas.rows; },
          "Rows of the batch.")
      .def_property_readonly(
          "extent",
          [](const LentBatch& lent) {
            const auto start = reinterpret_cast<uintptr_t>(lent.batch.block->data());
            return std::pair(start, start + lent.batch.areas.bytes);
          },
          "Addresses of the batch's first byte, and behind its last byte.")
      .def_property_readonly(
          "window", [](const LentBatch& lent) { return lent.batch.window; },
          "Window of the pass that contains the batch's last row.")
      .def_property_readonly(
          "failed_kernel", [](const LentBatch& lent) { return lent.batch.failed_kernel; },
          "Number of the kernel that failed on the batch; -1: none. A batch with a\n"
          "failed kernel may only be inspected, because the scan still owns the\n"
          "batch.")
      .def_property_readonly(
          "failed_key", [](const LentBatch& lent) { return lent.batch.failed_key; },
          "Key of the failed kernel's seeds.")
      .def(
          "take_tensor",
          [](const LentBatch& lent) -> py::object {
            if (lent.memory == nullptr) return py::none();
            return lent.memory->Take(*lent.batch.block);
          },
          "Returns the tensor that holds the batch, once, or None if the core's\n"
          "memory holds the batch.")
      .def_property_readonly(
          "areas",
          [](const LentBatch& lent) {
            const auto& numbers = lent.batch.areas.numbers;
            py::tuple areas(numbers.size());
            for (size_t i = 0; i < numbers.size(); ++i) {
              areas[i] = py::int_(numbers[i]);
            }
            return areas;
          },
          "Offsets and sizes of the outputs, which fastload.batch.assembler.Assembler\n"
          "reads.");

  py::class_<PyScan>(m, "Scan", "One pass over a dataset.")
      .def("next", &PyScan::Next,
           "Returns the next batch in plan order, or None at the end of the pass.\n"
           "Waits without the GIL; Ctrl-C interrupts the wait. Errors name their\n"
           "location.")
      .def("begin", &PyScan::Begin, py::call_guard<WithoutGil>(),
           "Marks the pass, which was prepared ahead, as begun.")
      .def_property_readonly("opened_all", &PyScan::opened_all,
                             "True if the last window is being worked on.")
      .def_property_readonly("ready", &PyScan::ready,
                             "True if next() has a batch without waiting.")
      .def_property_readonly(
          "waits", &PyScan::waits,
          "True if next() would wait: it has no batch, no end, no error and no work\n"
          "to do.")
      .def_property_readonly(
          "damage",
          [](const PyScan& self) -> std::optional<std::tuple<int64_t, int32_t, int32_t>> {
            const auto damage = self.damage();
            if (!damage) return std::nullopt;
            return std::tuple(damage->window, damage->row_group.file,
                              damage->row_group.row_group);
          },
          "Location of the CorruptFileError or StorageError that ended the pass:\n"
          "window of the plan, index of the file, row group of the file; None if\n"
          "unknown.")
      .def("describe", &PyScan::Describe, py::call_guard<WithoutGil>(),
           "Describes, in a line each, the conditions that delivery and every open "
           "window\n"
           "wait for: for a debugger in a pass that is stuck.")
      // Frees undelivered windows, which takes time, so without the GIL.
      .def("close", &PyScan::Close, "Abandons the pass. Idempotent.");
}

}  // namespace fastload
