#include "fastload/source/page_index.h"

#include <memory>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/files.h"
#include "bindings/without_gil.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

py::list Bytes(const std::vector<std::string>& values) {
  py::list list;
  for (const std::string& value : values) list.append(py::bytes(value));
  return list;
}

std::vector<PageBounds> ReadAll(const FileTuple& file, int32_t leaf,
                                const std::vector<int32_t>& row_groups) {
  const auto specs = FileSpecs({file});
  const FileSpec& spec = specs.front();
  Result<std::vector<PageBounds>> all = [&]() -> Result<std::vector<PageBounds>> {
    const WithoutGil without_gil;
    ARROW_ASSIGN_OR_RAISE(const auto opened, LocalFile::Open(spec));
    std::vector<PageBounds> found;
    for (int32_t row_group : row_groups) {
      auto bounds = ReadPageBounds(spec, *opened, row_group, leaf);
      if (!bounds.ok()) {
        const Place place{.file = spec.path, .row_group = row_group};
        return At(bounds.status(), place);
      }
      found.push_back(*std::move(bounds));
    }
    return found;
  }();
  return ValueOrRaise(std::move(all));
}

}  // namespace

void RegisterPageIndex(py::module_& m) {
  py::class_<PageBounds>(m, "PageBounds",
                         "Bounds of the values of each data page of a column chunk, in\n"
                         "order; no pages where the file does not tell.")
      .def_readonly("first_rows", &PageBounds::first_rows, "Of the row group.")
      .def_readonly("null_pages", &PageBounds::null_pages,
                    "Whether a page holds nothing but nulls.")
      .def_readonly("null_counts", &PageBounds::null_counts, "Empty = unknown.")
      .def_property_readonly(
          "minima", [](const PageBounds& bounds) { return Bytes(bounds.minima); },
          "As the format stores single values; bounds of long strings may be cut.")
      .def_property_readonly(
          "maxima", [](const PageBounds& bounds) { return Bytes(bounds.maxima); },
          "Likewise.");
  m.def(
      "read_page_bounds", &ReadAll, py::kw_only(), py::arg("file"), py::arg("leaf"),
      py::arg("row_groups"),
      "The bounds of one leaf column in each of those row groups, from the page index.");
}

}  // namespace fastload
