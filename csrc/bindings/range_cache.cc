#include "bindings/range_cache.h"

#include <optional>
#include <string>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/without_gil.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

ByteRange RangeOf(int64_t start, int64_t stop) {
  if (start < 0 || stop <= start) {
    throw py::value_error("Expected a range with bytes, got from " +
                          std::to_string(start) + " to " + std::to_string(stop));
  }
  return {start, stop - start};
}

py::object Read(RangeCache& cache, const std::string& object, int64_t start,
                int64_t stop) {
  const ByteRange range = RangeOf(start, stop);
  auto bytes = py::reinterpret_steal<py::object>(
      PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(range.bytes)));
  if (!bytes) throw py::error_already_set();
  auto* const out = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(bytes.ptr()));
  bool found = false;
  {
    // Nobody else has the new object yet.
    const WithoutGil without_gil;
    found = cache.Read(object, range, out);
  }
  return found ? bytes : py::none();
}

bool Covers(RangeCache& cache, const std::string& object, int64_t start, int64_t stop) {
  const ByteRange range = RangeOf(start, stop);
  const WithoutGil without_gil;
  return cache.Covers(object, {range});
}

std::unique_ptr<PyRangeClaim> Claim(const std::shared_ptr<RangeCache>& cache,
                                    const std::string& object, int64_t start,
                                    int64_t stop) {
  const ByteRange range = RangeOf(start, stop);
  std::unique_ptr<RangeClaim> claim;
  Status status;
  {
    const WithoutGil without_gil;
    auto taken = cache->Claim(object, range);
    status = taken.status();
    if (taken.ok()) claim = *std::move(taken);
  }
  RaiseIfError(status);
  if (claim == nullptr) return nullptr;
  return std::make_unique<PyRangeClaim>(cache, std::move(claim));
}

std::optional<bool> CheckRange(const std::string& directory, const std::string& object,
                               int64_t start, int64_t stop) {
  const RangeEntry entry{.directory = directory + "/" + object,
                         .object = object,
                         .range = RangeOf(start, stop)};
  const WithoutGil without_gil;
  uint64_t checked = 0;
  switch (ReadEntry(entry, {start, 0}, &checked, nullptr)) {
    case EntryState::kGood:
      return true;
    case EntryState::kDamaged:
      return false;
    case EntryState::kMissing:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

int64_t PyRangeClaim::Publish(const py::buffer& bytes) {
  Py_buffer view;
  if (PyObject_GetBuffer(bytes.ptr(), &view, PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
  Result<int64_t> written = int64_t{0};
  if (view.len != claim_->entry().range.bytes) {
    written = Status::Invalid("Expected " + std::to_string(claim_->entry().range.bytes) +
                              " bytes, got " + std::to_string(view.len));
  } else {
    // The view keeps the bytes.
    const WithoutGil without_gil;
    written = cache_->Publish(claim_.get(), static_cast<const uint8_t*>(view.buf));
  }
  PyBuffer_Release(&view);
  return ValueOrRaise(std::move(written));
}

void RegisterRangeCache(py::module_& m) {
  py::class_<RangeCache, std::shared_ptr<RangeCache>>(
      m, "RangeCache", "Byte ranges of objects, kept in files of a directory.")
      .def(py::init<std::string>(), py::arg("directory"))
      .def("covers", &Covers, py::arg("object"), py::arg("start"), py::arg("stop"),
           "Whether all of the bytes are there.")
      .def("read", &Read, py::arg("object"), py::arg("start"), py::arg("stop"),
           "The bytes; None if some are not there, or are damaged: those are removed.")
      .def(
          "claim", &Claim, py::arg("object"), py::arg("start"), py::arg("stop"),
          "The right to fill an entry; None if another thread or process has it, or the\n"
          "entry is there. Raises StorageError where the system refuses.");
  m.def("check_range", &CheckRange, py::arg("directory"), py::arg("object"),
        py::arg("start"), py::arg("stop"),
        "Whether an entry of a RangeCache is as it was written; one that is not is\n"
        "removed. None if it is not there, or can't be opened.");
  py::class_<PyRangeClaim>(m, "RangeClaim", "The right to fill an entry of a RangeCache.")
      .def_property_readonly(
          "descriptor", &PyRangeClaim::descriptor,
          "Of the file that is written to, which is empty at first; -1\n"
          "once it is given up.")
      .def("publish", &PyRangeClaim::Publish, py::arg("bytes"),
           "Writes the entry, which appears at once or not at all; returns the bytes "
           "that\n"
           "it takes on disk. Raises StorageError where the system refuses. Once.")
      .def("release", &PyRangeClaim::Release, "Gives it up. Idempotent.");
}

}  // namespace fastload
