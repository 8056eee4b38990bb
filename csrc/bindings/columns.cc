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

constexpr std::array<std::pair<const char*, OutputKind>, 10> kOutputKinds = {{
    {"column", OutputKind::kColumn},
    {"stack", OutputKind::kStack},
    {"ragged", OutputKind::kRagged},
    {"list", OutputKind::kList},
    {"pad", OutputKind::kPad},
    {"length", OutputKind::kLength},
    {"valid", OutputKind::kValid},
    {"file", OutputKind::kFile},
    {"row", OutputKind::kRow},
    {"real_row", OutputKind::kRealRow},
}};

}  // namespace

void RegisterColumns(py::module_& m) {
  py::class_<ColumnSpec>(m, "ColumnSpec", "How one leaf column of the files is read.")
      .def(py::init([](std::string name, std::vector<int32_t> leaves,
                       const std::string& dtype, bool bytes,
                       std::optional<py::bytes> fill, bool cast, int64_t multiplier,
                       bool unscaled, int32_t depth, int64_t list_size, bool null_lists) {
             ColumnSpec spec{.name = std::move(name),
                             .leaves = std::move(leaves),
                             .dtype = Named(kDTypes, dtype),
                             .bytes = bytes,
                             .fill = std::nullopt,
                             .cast = cast,
                             .multiplier = multiplier,
                             .unscaled = unscaled,
                             .depth = depth,
                             .list_size = list_size,
                             .null_lists = null_lists};
             if (fill) spec.fill = std::string(*fill);
             if (spec.fill && !bytes &&
                 spec.fill->size() != static_cast<size_t>(ItemSize(spec.dtype))) {
               throw py::value_error("Expected a fill of one element, got " +
                                     std::to_string(spec.fill->size()) + " bytes");
             }
             return spec;
           }),
           py::kw_only(), py::arg("name"), py::arg("leaves"), py::arg("dtype"),
           py::arg("bytes"), py::arg("fill"), py::arg("cast"), py::arg("multiplier"),
           py::arg("unscaled"), py::arg("depth") = 0, py::arg("list_size") = 0,
           py::arg("null_lists") = false);

  py::class_<OutputSpec>(m, "OutputSpec", "One tensor, or ragged tensor, of a batch.")
      .def(py::init([](const std::string& kind, std::vector<int32_t> columns,
                       int64_t length, const py::bytes& pad) {
             return OutputSpec{.kind = Named(kOutputKinds, kind),
                               .columns = std::move(columns),
                               .length = length,
                               .pad = pad};
           }),
           py::arg("kind"), py::arg("columns"), py::arg("length") = 0,
           py::arg("pad") = py::bytes());
}

}  // namespace fastload
