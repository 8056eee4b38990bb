#include "fastload/plan/columns.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "fastload/decode/values/cast.h"
#include "fastload/decode/values/vocabulary.h"
#include "fastload/scan/kernels.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

// Returns the value of a name in a table. Throws ValueError if the table lacks the name.
template <typename T, size_t n>
T Named(const std::array<std::pair<const char*, T>, n>& table, const std::string& name) {
  for (const auto& [text, value] : table) {
    if (name == text) return value;
  }
  throw py::value_error("Expected a name that the core knows, got " + name);
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

constexpr std::array<std::pair<const char*, OutputKind>, 22> kOutputKinds = {{
    {"column", OutputKind::kColumn},
    {"stack", OutputKind::kStack},
    {"ragged", OutputKind::kRagged},
    {"list", OutputKind::kList},
    {"pad", OutputKind::kPad},
    {"mask", OutputKind::kMask},
    {"length", OutputKind::kLength},
    {"valid", OutputKind::kValid},
    {"stack_valid", OutputKind::kStackValid},
    {"file", OutputKind::kFile},
    {"row", OutputKind::kRow},
    {"real_row", OutputKind::kRealRow},
    {"computed", OutputKind::kComputed},
    {"first", OutputKind::kFirst},
    {"document", OutputKind::kDocument},
    {"position", OutputKind::kPosition},
    {"edges", OutputKind::kEdges},
    {"longest", OutputKind::kLongest},
    {"first_file", OutputKind::kFirstFile},
    {"first_row", OutputKind::kFirstRow},
    {"first_item", OutputKind::kFirstItem},
    {"first_real", OutputKind::kFirstReal},
}};

// Returns the bytes of one value of the column. Throws ValueError if an element has
// another size.
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

Vocabulary::Integer VocabularyInteger(py::handle entry) {
  if (PyLong_Check(entry.ptr()) == 0) {
    throw py::type_error("Expected a vocabulary of bytes or of int");
  }
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(entry.ptr(), &overflow);
  if (overflow == 0) return {static_cast<uint64_t>(value), false};
  if (overflow > 0) {
    const uint64_t bits = PyLong_AsUnsignedLongLong(entry.ptr());
    if (PyErr_Occurred() == nullptr) return {bits, true};
    PyErr_Clear();
  }
  throw py::value_error("Expected integers of 64 bits in a vocabulary, got " +
                        std::string(py::str(entry)));
}

// Makes a vocabulary from None, or from a list of only bytes or only int.
std::shared_ptr<const Vocabulary> MakeVocabulary(
    const std::optional<std::vector<py::object>>& entries) {
  if (!entries) return nullptr;
  if (!entries->empty() && !py::isinstance<py::bytes>(entries->front())) {
    std::vector<Vocabulary::Integer> integers;
    integers.reserve(entries->size());
    for (const py::object& entry : *entries) integers.push_back(VocabularyInteger(entry));
    return ValueOrRaise(Vocabulary::OfIntegers(integers));
  }
  std::vector<std::string> strings;
  strings.reserve(entries->size());
  for (const py::object& entry : *entries) {
    if (!py::isinstance<py::bytes>(entry)) {
      throw py::type_error("Expected a vocabulary of bytes or of int");
    }
    strings.emplace_back(entry.cast<std::string_view>());
  }
  return ValueOrRaise(Vocabulary::OfBytes(std::move(strings)));
}

void CheckCategories(const ColumnSpec& spec) {
  const bool hashed = spec.hash_buckets != 0;
  if (!hashed && spec.vocabulary == nullptr) return;
  if (spec.hash_buckets < 0 || (hashed && spec.vocabulary != nullptr)) {
    throw py::value_error("Expected hash_buckets above 0 or a vocabulary, got " +
                          std::to_string(spec.hash_buckets) +
                          (spec.vocabulary != nullptr ? " and a vocabulary" : ""));
  }
  if (spec.bytes || spec.dtype != DType::kInt64) {
    throw py::value_error("Expected categories of dtype int64, got " +
                          std::string(spec.bytes ? "bytes" : NameOf(spec.dtype)));
  }
}

}  // namespace

void RegisterColumns(py::module_& m) {
  py::class_<ColumnSpec>(m, "ColumnSpec",
                         "The way in which one leaf column of the files is read.")
      .def(py::init([](std::string name, std::vector<int32_t> leaves,
                       const std::string& dtype, bool bytes,
                       std::optional<py::bytes> fill, bool cast, bool unscaled,
                       bool exact, std::vector<int64_t> multipliers,
                       const std::vector<std::optional<py::bytes>>& constants,
                       std::vector<int32_t> shared_levels, int32_t levels, int32_t depth,
                       int64_t list_size, int64_t list_items, bool null_lists,
                       int64_t hash_buckets, uint64_t hash_seed,
                       const std::optional<std::vector<py::object>>& vocabulary,
                       int64_t unknown, bool lengths_only) {
             ColumnSpec spec{.name = std::move(name),
                             .leaves = std::move(leaves),
                             .constants = {},
                             .dtype = Named(kDTypes, dtype),
                             .bytes = bytes,
                             .fill = std::nullopt,
                             .cast = cast,
                             .exact = exact,
                             .multipliers = std::move(multipliers),
                             .unscaled = unscaled,
                             .shared_levels = std::move(shared_levels),
                             .levels = levels,
                             .depth = depth,
                             .list_size = list_size,
                             .list_items = list_items,
                             .lengths_only = lengths_only,
                             .null_lists = null_lists,
                             .hash_buckets = hash_buckets,
                             .hash_seed = hash_seed,
                             .vocabulary = MakeVocabulary(vocabulary),
                             .unknown = unknown};
             if (fill) spec.fill = Element(*fill, spec);
             for (const auto& constant : constants) {
               spec.constants.emplace_back();
               if (constant) spec.constants.back() = Element(*constant, spec);
             }
             const size_t files = spec.leaves.size();
             CheckPerFile("multipliers", spec.multipliers.size(), files);
             CheckPerFile("constants", spec.constants.size(), files);
             CheckPerFile("shared_levels", spec.shared_levels.size(), files);
             CheckCategories(spec);
             return spec;
           }),
           py::arg("name"), py::arg("leaves"), py::arg("dtype"), py::arg("bytes"),
           py::arg("fill"), py::arg("cast"), py::arg("unscaled"),
           py::arg("exact") = false, py::arg("multipliers") = py::tuple(),
           py::arg("constants") = py::tuple(), py::arg("shared_levels") = py::tuple(),
           py::arg("levels") = 0, py::arg("depth") = 0, py::arg("list_size") = 0,
           py::arg("list_items") = -1, py::arg("null_lists") = false,
           py::arg("hash_buckets") = 0, py::arg("hash_seed") = 0,
           py::arg("vocabulary") = py::none(), py::arg("unknown") = -1,
           py::arg("lengths_only") = false);

  py::class_<OutputSpec>(m, "OutputSpec", "One tensor, or ragged tensor, of a batch.")
      .def(py::init([](const std::string& kind, std::vector<int32_t> columns,
                       int64_t length, const py::bytes& pad, bool keep_last,
                       bool pad_left, const std::string& dtype) {
             return OutputSpec{.kind = Named(kOutputKinds, kind),
                               .columns = std::move(columns),
                               .length = length,
                               .pad = pad,
                               .dtype = Named(kDTypes, dtype),
                               .keep_last = keep_last,
                               .pad_left = pad_left};
           }),
           py::arg("kind"), py::arg("columns"), py::arg("length") = 0,
           py::arg("pad") = py::bytes(), py::arg("keep_last") = false,
           py::arg("pad_left") = false, py::arg("dtype") = "uint8");

  py::class_<KernelSpec>(m, "KernelSpec", "A compiled function on columns of a batch.")
      .def(py::init([](uintptr_t address, std::vector<int32_t> inputs,
                       std::vector<int32_t> outputs, std::pair<int32_t, int32_t> places) {
             return KernelSpec{.entry = reinterpret_cast<KernelEntry>(address),
                               .inputs = std::move(inputs),
                               .outputs = std::move(outputs),
                               .file = places.first,
                               .row = places.second};
           }),
           py::kw_only(), py::arg("address"), py::arg("inputs"), py::arg("outputs"),
           py::arg("places"));
}

}  // namespace fastload
