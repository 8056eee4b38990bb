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
    // No other thread has the new object yet.
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
  auto claim = ValueOrRaise(CallWithoutGil([&] { return cache->Claim(object, range); }));
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
    // The view keeps the bytes alive.
    const WithoutGil without_gil;
    written = cache_->Publish(claim_.get(), static_cast<const uint8_t*>(view.buf));
  }
  PyBuffer_Release(&view);
  return ValueOrRaise(std::move(written));
}

void RegisterRangeCache(py::module_& m) {
  py::class_<RangeCache, std::shared_ptr<RangeCache>>(
      m, "RangeCache", "A cache of byte ranges of objects, in files of a directory.")
      .def(py::init<std::string>(), py::arg("directory"))
      .def("covers", &Covers, py::arg("object"), py::arg("start"), py::arg("stop"),
           "Returns True if the cache has all of the bytes.")
      .def("read", &Read, py::arg("object"), py::arg("start"), py::arg("stop"),
           "Returns the bytes, or None if bytes are missing or damaged; damaged\n"
           "entries are removed.")
      .def("claim", &Claim, py::arg("object"), py::arg("start"), py::arg("stop"),
           "Returns the right to fill an entry, or None if another thread or process\n"
           "has the right, or the entry exists. Raises StorageError where the system\n"
           "refuses.");
  m.def("check_range", &CheckRange, py::arg("directory"), py::arg("object"),
        py::arg("start"), py::arg("stop"),
        "Returns True if an entry of a RangeCache is as it was written, and False,\n"
        "after removing the entry, if not. Returns None if the entry does not exist\n"
        "or can't be opened.");
  py::class_<PyRangeClaim>(m, "RangeClaim", "The right to fill an entry of a RangeCache.")
      .def_property_readonly(
          "descriptor", &PyRangeClaim::descriptor,
          "Descriptor of the file being written, which is empty at first; -1 once the\n"
          "right is released.")
      .def("publish", &PyRangeClaim::Publish, py::arg("bytes"),
           "Writes the entry, which appears complete or not at all, and returns the\n"
           "bytes that the entry takes on disk. Raises StorageError where the system\n"
           "refuses. May be called once.")
      .def("release", &PyRangeClaim::Release, "Releases the right. Idempotent.");
}

}  // namespace fastload
