#include "fastload/footer.h"

#include <memory>
#include <string>
#include <utility>

#include "arrow/c/bridge.h"
#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/without_gil.h"
#include "fastload/leaf_summary.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

constexpr const char kSchemaCapsule[] = "arrow_schema";

// As the Arrow PyCapsule interface asks: whoever imports the schema marks it released.
void DeleteSchema(PyObject* capsule) {
  auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule, kSchemaCapsule));
  if (schema == nullptr) {
    PyErr_Clear();
    return;
  }
  if (schema->release != nullptr) schema->release(schema);
  delete schema;
}

py::object ExportLeafSchema(const Footer& footer) {
  auto schema = std::make_unique<ArrowSchema>();
  RaiseIfError(arrow::ExportSchema(*footer.leaf_schema(), schema.get()));
  PyObject* capsule = PyCapsule_New(schema.get(), kSchemaCapsule, &DeleteSchema);
  if (capsule == nullptr) {
    schema->release(schema.get());
    throw py::error_already_set();
  }
  schema.release();  // the capsule's now
  return py::reinterpret_steal<py::object>(capsule);
}

std::shared_ptr<Footer> MakeFooter(const py::bytes& tail, int64_t file_bytes,
                                   std::string file) {
  // Bytes objects don't change, and the caller's reference keeps this one alive.
  const std::string_view view = tail;
  Result<std::shared_ptr<Footer>> footer = [&] {
    const WithoutGil without_gil;
    return Footer::Make(view, file_bytes, std::move(file));
  }();
  return ValueOrRaise(std::move(footer));
}

LeafChunks ReadLeafChunks(const Footer& footer, int32_t leaf) {
  Result<LeafChunks> chunks = [&] {
    const WithoutGil without_gil;
    return footer.ReadLeafChunks(leaf);
  }();
  return ValueOrRaise(std::move(chunks));
}

std::vector<LeafSummary> Summarize(const std::vector<std::shared_ptr<Footer>>& footers,
                                   const std::vector<std::vector<int32_t>>& leaves,
                                   const std::vector<bool>& statistics) {
  Result<std::vector<LeafSummary>> summaries = [&] {
    const WithoutGil without_gil;
    return SummarizeLeaves(footers, leaves, statistics);
  }();
  return ValueOrRaise(std::move(summaries));
}

}  // namespace

void RegisterFooter(py::module_& m) {
  py::class_<Leaf>(m, "Leaf", "One leaf column of a Parquet schema.")
      .def_property_readonly(
          "path", [](const Leaf& leaf) { return py::tuple(py::cast(leaf.path)); },
          "Names from the root, a tuple of str.")
      .def_property_readonly(
          "names", [](const Leaf& leaf) { return py::tuple(py::cast(leaf.names)); },
          "As users name it, a tuple of str: the path without the groups that lists are\n"
          "written as, and with key and value for those of a map.")
      .def_readonly("physical_type", &Leaf::physical_type,
                    "As the format names it, such as INT64.")
      .def_readonly("logical_type", &Leaf::logical_type,
                    "As Arrow prints it, such as String; None where there is none.")
      .def_readonly("max_definition_level", &Leaf::max_definition_level,
                    "0: no nulls are possible.")
      .def_readonly("max_repetition_level", &Leaf::max_repetition_level,
                    "0: flat, one value or null a row.")
      .def_property_readonly(
          "list_sizes",
          [](const Leaf& leaf) { return py::tuple(py::cast(leaf.list_sizes)); },
          "Of the lists around a value, outermost first: their elements; 0 = any number.")
      .def_property_readonly(
          "tensor_shape",
          [](const Leaf& leaf) -> std::optional<py::tuple> {
            if (!leaf.tensor_shape.has_value()) return std::nullopt;
            return py::tuple(py::cast(*leaf.tensor_shape));
          },
          "Of the arrow.fixed_shape_tensor that the innermost list is, as stored; None "
          "where it is none.")
      .def_property_readonly(
          "tensor_permutation",
          [](const Leaf& leaf) { return py::tuple(py::cast(leaf.tensor_permutation)); },
          "Dimension i of that tensor is dimension permutation[i] as stored; empty "
          "where\n"
          "they are the same.");

  py::class_<LeafChunks>(m, "LeafChunks",
                         "What a footer says of one leaf column, by row group index.")
      .def_readonly("compressed_bytes", &LeafChunks::compressed_bytes,
                    "Bytes in the file.")
      .def_readonly("uncompressed_bytes", &LeafChunks::uncompressed_bytes,
                    "Bytes of the decompressed pages, headers included.")
      .def_readonly("num_values", &LeafChunks::num_values,
                    "Values, nulls among them, and one for each list without elements.")
      .def_readonly("value_bytes", &LeafChunks::value_bytes,
                    "Bytes of all byte-array values; -1 = unknown.")
      .def_readonly("null_count", &LeafChunks::null_count,
                    "Nulls, at any level; -1 = unknown.");

  py::class_<LeafSummary>(m, "LeafSummary",
                          "What the footers of many files say of one leaf column.")
      .def_readonly("values", &LeafSummary::values,
                    "Elements, nulls among them, and one for each list without elements.")
      .def_readonly("value_bytes", &LeafSummary::value_bytes,
                    "Bytes of all byte-array values; those of the pages where unknown.")
      .def_readonly("null_file", &LeafSummary::null_file,
                    "Index of the first file with a null known of; -1 = none.")
      .def_readonly("null_row_group", &LeafSummary::null_row_group,
                    "The row group of that file with the null; -1 = none.");

  py::class_<Footer, std::shared_ptr<Footer>>(
      m, "Footer",
      "The footer of one Parquet file, parsed from the end of the file. Immutable.\n\n"
      "Raises CorruptFileError or UnsupportedTypeError, naming the file, the row group\n"
      "and the column where known.")
      .def(py::init(&MakeFooter), py::arg("tail"), py::arg("file_bytes"), py::arg("file"))
      .def_static(
          "tail_bytes",
          [](const py::bytes& tail, int64_t file_bytes, const std::string& file) {
            return ValueOrRaise(Footer::TailBytes(tail, file_bytes, file));
          },
          py::arg("tail"), py::arg("file_bytes"), py::arg("file"),
          "Bytes at the end of the file that hold the footer, trailer included, as the\n"
          "last 8 bytes (or more) of the file tell.")
      .def_property_readonly("file", &Footer::file, "Name of the file in errors.")
      .def_property_readonly("file_bytes", &Footer::file_bytes, "Size of the file.")
      .def_property_readonly("num_rows", &Footer::num_rows, "Rows of all row groups.")
      .def_property_readonly("row_group_rows", &Footer::row_group_rows,
                             "Rows of each row group.")
      .def_property_readonly("leaves", &Footer::leaves,
                             "Leaf columns in the order of the format.")
      .def("same_schema", &Footer::SameSchema, py::arg("other"),
           "Whether the leaves and their Arrow types are the same, whatever the rows.")
      .def("leaf_chunks", &ReadLeafChunks, py::arg("leaf"),
           "Sizes and null counts of one leaf column, by its index in `leaves`.")
      .def("__arrow_c_schema__", &ExportLeafSchema,
           "Arrow PyCapsule of a schema with one field for each leaf, named by its "
           "dotted\n"
           "path, of the type that Arrow reads.")
      .def(py::pickle(
          [](const Footer& footer) {
            const std::string tail = ValueOrRaise(footer.Serialize());
            return py::make_tuple(py::bytes(tail), footer.file_bytes(), footer.file());
          },
          [](const py::tuple& state) {
            return MakeFooter(state[0].cast<py::bytes>(), state[1].cast<int64_t>(),
                              state[2].cast<std::string>());
          }));

  m.def(
      "summarize_leaves", &Summarize, py::arg("footers"), py::arg("leaves"),
      py::kw_only(), py::arg("statistics"),
      "Takes together what the footers say of columns, `leaves[column][file]` being the\n"
      "index of the leaf in the file, -1 = it lacks it. Without `statistics[column]` it\n"
      "is quicker, finds no nulls, and the bytes are those of the pages.");
}

}  // namespace fastload
