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
  const WithoutGil without_gil;
  Close();
  scan_.Drop();
}

std::unique_ptr<LentBatch> PyScan::Next() {
  if (!scan_.mine()) {
    throw std::runtime_error("Expected a pass of this process, got one from before fork");
  }
  // Ctrl-C is looked at this often.
  constexpr std::chrono::milliseconds kSlice{50};
  while (true) {
    bool done = false;
    Result<std::optional<Batch>> batch = [&] {
      // Nothing of Python is touched while waiting.
      const WithoutGil without_gil;
      return scan_->Next(kSlice, &done);
    }();
    std::optional<Batch> ready = ValueOrRaise(std::move(batch));
    if (ready) {
      return std::make_unique<LentBatch>(LentBatch{std::move(*ready), memory_});
    }
    if (done) return nullptr;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void PyScan::Close() {
  if (scan_.mine()) scan_->Close();
}

void PyScan::Begin() {
  if (scan_.mine()) scan_->Begin();
}

bool PyScan::opened_all() const { return scan_.mine() && scan_->opened_all(); }

bool PyScan::ready() const { return scan_.mine() && scan_->ready(); }

bool PyScan::waits() const { return scan_.mine() && scan_->waits(); }

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
          "Addresses of its first byte, and behind its last.")
      .def_property_readonly(
          "window", [](const LentBatch& lent) { return lent.batch.window; },
          "The window of the pass that its last row lies in.")
      .def_property_readonly(
          "failed_kernel", [](const LentBatch& lent) { return lent.batch.failed_kernel; },
          "Number of the kernel that failed on it; -1: none did. One that has is only to "
          "be\n"
          "looked at: the scan still has it.")
      .def_property_readonly(
          "failed_key", [](const LentBatch& lent) { return lent.batch.failed_key; },
          "What the seeds of that kernel are made of.")
      .def(
          "take_tensor",
          [](const LentBatch& lent) -> py::object {
            if (lent.memory == nullptr) return py::none();
            return lent.memory->Take(lent.batch.block->data());
          },
          "The tensor that it lies in, once; None if it lies in the core's memory.")
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
          "Where the outputs lie: fastload.batch.assembler.Assembler reads it.");

  py::class_<PyScan>(m, "Scan", "One pass over a dataset.")
      .def("next", &PyScan::Next,
           "The next batch in plan order, or None at the end of the pass. Waits without\n"
           "the GIL; Ctrl-C interrupts it. Raises what went wrong, with its place.")
      .def("begin", &PyScan::Begin, py::call_guard<WithoutGil>(),
           "The pass, prepared ahead, has begun.")
      .def_property_readonly("opened_all", &PyScan::opened_all,
                             "Whether its last window is in work.")
      .def_property_readonly("ready", &PyScan::ready,
                             "Whether next() has a batch without waiting.")
      .def_property_readonly("waits", &PyScan::waits,
                             "Whether next() would wait, rather than have a batch, the "
                             "end, an\n"
                             "error, or work to do.")
      .def_property_readonly(
          "damage",
          [](const PyScan& self) -> std::optional<std::tuple<int64_t, int32_t, int32_t>> {
            const auto damage = self.damage();
            if (!damage) return std::nullopt;
            return std::tuple(damage->window, damage->row_group.file,
                              damage->row_group.row_group);
          },
          "Of the CorruptFileError or StorageError that ended the pass: the window of\n"
          "the plan, the index of the file and the row group in that; None if nothing\n"
          "tells them.")
      .def(
          "describe", &PyScan::Describe, py::call_guard<WithoutGil>(),
          "What delivery and every window in work wait for, a line each: for a debugger\n"
          "in a pass that is stuck.")
      // Frees windows that were not handed out: no need to hold up Python for that.
      .def("close", &PyScan::Close, py::call_guard<WithoutGil>(),
           "Abandons the pass. Idempotent.");
}

}  // namespace fastload
