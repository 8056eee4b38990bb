#include "fastload/filter/row_finder.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/files.h"
#include "bindings/fork_guard.h"
#include "bindings/remote_queue.h"
#include "bindings/without_gil.h"
#include "pybind11/numpy.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

using Int64Array = py::array_t<int64_t, py::array::c_style>;
using TestTuple = std::tuple<int32_t, Int64Array, bool>;

ValueTest TestOf(const TestTuple& test) {
  const auto& [column, ranges, nulls] = test;
  if (ranges.ndim() != 2 || ranges.shape(1) != 2) {
    throw py::value_error("Expected the ranges of a test as int64 (n, 2)");
  }
  ValueTest result{.column = column, .nulls = nulls};
  const auto view = ranges.unchecked<2>();
  for (py::ssize_t i = 0; i < view.shape(0); ++i) {
    result.ranges.push_back({view(i, 0), view(i, 1)});
  }
  return result;
}

// Returns None, or the bits as an array that owns its memory.
py::object BitsOf(const FoundRows& found) {
  if (found.bits.empty()) return py::none();
  const auto bytes = static_cast<py::ssize_t>(found.bits.size() * sizeof(uint64_t));
  const auto* const data = reinterpret_cast<const uint8_t*>(found.bits.data());
  return py::array_t<uint8_t>(bytes, data);
}

class PyRowFinder {
 public:
  explicit PyRowFinder(std::shared_ptr<RowFinder> finder) : finder_(std::move(finder)) {}

  py::list Find(const std::vector<std::pair<int32_t, int32_t>>& row_groups, bool skip) {
    if (!finder_.mine()) {
      throw std::runtime_error(
          "Expected a finder of this process, got one from before fork");
    }
    std::vector<RowGroupId> ids;
    for (const auto& [file, row_group] : row_groups) ids.push_back({file, row_group});
    std::optional<RowSearch> search;
    CallWithoutGil([&] { search.emplace(finder_.operator->(), std::move(ids), skip); });
    // The interval at which Ctrl-C is checked.
    constexpr std::chrono::milliseconds kSlice{50};
    while (!CallWithoutGil([&] { return search->Wait(kSlice); })) {
      if (PyErr_CheckSignals() == 0) continue;
      CallWithoutGil([&] { search.reset(); });
      throw py::error_already_set();
    }
    py::list list;
    for (const Result<FoundRows>& found : search->found()) {
      const Status& status = found.status();
      if (skip && KindOf(status) == ErrorKind::kCorruptFile) {
        list.append(status.message());
        continue;
      }
      RaiseIfError(status);
      list.append(py::make_tuple(found->count, BitsOf(*found)));
    }
    return list;
  }

 private:
  ForkGuard<RowFinder> finder_;
};

std::unique_ptr<PyRowFinder> Make(const std::vector<FileTuple>& files,
                                  std::vector<ColumnSpec> columns,
                                  const std::vector<TestTuple>& tests,
                                  std::vector<int32_t> program, int32_t threads,
                                  const PyRemoteQueue* remote, bool decodes) {
  RowFilter filter{.program = std::move(program)};
  for (const TestTuple& test : tests) filter.tests.push_back(TestOf(test));
  return std::make_unique<PyRowFinder>(ValueOrRaise(
      RowFinder::Make(FileSpecs(files), remote == nullptr ? nullptr : remote->queue(),
                      std::move(columns), std::move(filter), threads, decodes)));
}

}  // namespace

void RegisterRowFinder(py::module_& m) {
  py::class_<PyRowFinder>(
      m, "RowFinder", py::release_gil_before_calling_cpp_dtor(),
      "A finder of the rows of row groups that pass tests of columns.")
      .def(py::init(&Make), py::kw_only(), py::arg("files"), py::arg("columns"),
           py::arg("tests"), py::arg("program"), py::arg("threads"),
           py::arg("remote") = nullptr, py::arg("decodes") = true,
           "tests: for each test its column, the ranges of keys that pass as int64 (n,\n"
           "2), first and last, and whether a null passes.\n"
           "program: the filter in postfix notation; a test's number stands for its\n"
           "outcome, -1 joins the two outcomes before by \"and\", -2 by \"or\".\n"
           "decodes: if false, no column is read, and all rows of a row group count as\n"
           "found unless metadata exclude them.")
      .def("find", &PyRowFinder::Find, py::arg("row_groups"), py::kw_only(),
           py::arg("skip") = false,
           "Returns, for each (file, row group), how many rows pass, and a bit for\n"
           "each row; None where all rows pass, or none. Waits without the GIL; Ctrl-C\n"
           "interrupts the wait. Errors name their location. With `skip`, damage\n"
           "becomes a message instead of an error.");
}

}  // namespace fastload
