#include "fastload/columns.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

// The value of a string in a table of names; ValueError when there is none.
template <typename T, size_t n>
T Named(const std::array<std::pair<const char*, T>, n>& table, const std::string& name) {
  for (const auto& [text, value] : table) {
    if (name == text) return value;
  }
  throw py::value_error("Expected one of the names of the core, got " + name);
}

constexpr std::array<std::pair<const char*, DType>, 13> kDTypes = {{
    {"bool", DType::kBool},
    {"uint8", DType::kUInt8},
    {"int8", DType::kInt8},
    {"uint16", DType::kUInt16},
    {"int16", DType::kInt16},
    {"uint32", DType::kUInt32},
    {"int32", DType::kInt32},
    {"uint64", DType::kUInt64},
    {"int64", DType::kInt64},
    {"float16", DType::kFloat16},
    {"bfloat16", DType::kBFloat16},
    {"float32", DType::kFloat32},
    {"float64", DType::kFloat64},
}};

constexpr std::array<std::pair<const char*, OutputKind>, 7> kOutputKinds = {{
    {"column", OutputKind::kColumn},
    {"stack", OutputKind::kStack},
    {"bytes", OutputKind::kBytes},
    {"valid", OutputKind::kValid},
    {"file", OutputKind::kFile},
    {"row", OutputKind::kRow},
    {"real_row", OutputKind::kRealRow},
}};

// The bytes of one value of the column; ValueError if an element has another size.
std::string Element(const py::bytes& value, const ColumnSpec& spec) {
  std::string element(value);
  if (!spec.bytes && element.size() != static_cast<size_t>(ItemSize(spec.dtype))) {
    throw py::value_error("Expected the bytes of one element, got " +
                          std::to_string(element.size()));
  }
  return element;
}

void CheckPerFile(const std::string& name, size_t size, size_t files) {
  if (size == 0 || size == files) return;
  throw py::value_error("Expected " + name + " for each of " + std::to_string(files) +
                        " files or none, got " + std::to_string(size));
}

}  // namespace

void RegisterColumns(py::module_& m) {
  py::class_<ColumnSpec>(m, "ColumnSpec", "How one leaf column of the files is read.")
      .def(py::init([](std::string name, std::vector<int32_t> leaves,
                       const std::string& dtype, bool bytes,
                       std::optional<py::bytes> fill, bool cast, bool unscaled,
                       bool exact, std::vector<int64_t> multipliers,
                       const std::vector<std::optional<py::bytes>>& constants) {
             ColumnSpec spec{.name = std::move(name),
                             .leaves = std::move(leaves),
                             .constants = {},
                             .dtype = Named(kDTypes, dtype),
                             .bytes = bytes,
                             .fill = std::nullopt,
                             .cast = cast,
                             .exact = exact,
                             .multipliers = std::move(multipliers),
                             .unscaled = unscaled};
             if (fill) spec.fill = Element(*fill, spec);
             for (const auto& constant : constants) {
               spec.constants.emplace_back();
               if (constant) spec.constants.back() = Element(*constant, spec);
             }
             const size_t files = spec.leaves.size();
             CheckPerFile("multipliers", spec.multipliers.size(), files);
             CheckPerFile("constants", spec.constants.size(), files);
             return spec;
           }),
           py::kw_only(), py::arg("name"), py::arg("leaves"), py::arg("dtype"),
           py::arg("bytes"), py::arg("fill"), py::arg("cast"), py::arg("unscaled"),
           py::arg("exact") = false, py::arg("multipliers") = py::tuple(),
           py::arg("constants") = py::tuple());

  py::class_<OutputSpec>(m, "OutputSpec", "One tensor, or ragged tensor, of a batch.")
      .def(py::init([](const std::string& kind, std::vector<int32_t> columns) {
             return OutputSpec{.kind = Named(kOutputKinds, kind),
                               .columns = std::move(columns)};
           }),
           py::arg("kind"), py::arg("columns"));
}

}  // namespace fastload
