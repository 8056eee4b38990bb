#include "fastload/source/footer.h"

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "arrow/c/bridge.h"
#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/without_gil.h"
#include "fastload/source/leaf_summary.h"
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
                                   std::string file, FooterSchemas* schemas) {
  // Bytes objects don't change, and the caller's reference keeps this one alive.
  const std::string_view view = tail;
  Result<std::shared_ptr<Footer>> footer = [&] {
    const WithoutGil without_gil;
    return Footer::Make(view, file_bytes, std::move(file), schemas);
  }();
  return ValueOrRaise(std::move(footer));
}

// pybind11 holds by pointers that might change it.
using Schema = std::shared_ptr<FooterSchema>;
Schema Held(const std::shared_ptr<const FooterSchema>& schema) {
  return std::const_pointer_cast<FooterSchema>(schema);
}

// (file, offset, bytes), or the bytes.
using Kept =
    std::variant<std::tuple<std::shared_ptr<KeptFile>, int64_t, int64_t>, py::bytes>;

// `rows` are int64 numbers in the machine's order.
std::shared_ptr<Footer> OfPacked(const Kept& kept, int64_t file_bytes, std::string file,
                                 const py::bytes& rows, Schema schema) {
  const std::string_view numbers = rows;
  std::vector<int64_t> row_group_rows(numbers.size() / sizeof(int64_t));
  std::memcpy(row_group_rows.data(), numbers.data(),
              row_group_rows.size() * sizeof(int64_t));
  KeptBytes packed;
  if (const auto* const text = std::get_if<py::bytes>(&kept)) {
    packed = KeptBytes(std::string(*text));
  } else {
    const auto& [kept_file, offset, bytes] = std::get<0>(kept);
    packed = KeptBytes(kept_file, offset, bytes);
  }
  return ValueOrRaise(Footer::OfPacked(std::move(packed), file_bytes, std::move(file),
                                       std::move(row_group_rows), std::move(schema)));
}

py::bytes Pack(const Footer& footer, const py::bytes& tail) {
  const std::string_view view = tail;
  Result<std::string> packed = [&] {
    const WithoutGil without_gil;
    return footer.Pack(view);
  }();
  return ValueOrRaise(std::move(packed));
}

py::bytes RowsOf(const Footer& footer) {
  const auto& rows = footer.row_group_rows();
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(int64_t)};
}

Schema SchemaOf(const py::bytes& tail) {
  const std::string_view view = tail;
  const auto bytes = static_cast<int64_t>(view.size());
  // A file of nothing else, but for the magic that it would begin with.
  return Held(ValueOrRaise(Footer::Make(view, bytes + 4, ""))->schema());
}

py::tuple StateOf(const Footer& footer) {
  if (!footer.packed()) {
    const std::string tail = ValueOrRaise(footer.Serialize());
    return py::make_tuple(py::bytes(tail), footer.file_bytes(), footer.file());
  }
  const py::bytes packed = ValueOrRaise(footer.PackedBytes());
  return py::make_tuple(packed, footer.file_bytes(), footer.file(), RowsOf(footer),
                        Held(footer.schema()));
}

std::shared_ptr<Footer> OfState(const py::tuple& state) {
  const auto bytes = state[0].cast<py::bytes>();
  const auto size = state[1].cast<int64_t>();
  auto file = state[2].cast<std::string>();
  if (state.size() == 3) return MakeFooter(bytes, size, std::move(file), nullptr);
  return OfPacked(bytes, size, std::move(file), state[3].cast<py::bytes>(),
                  state[4].cast<Schema>());
}

LeafChunks ReadLeafChunks(const Footer& footer, int32_t leaf) {
  Result<LeafChunks> chunks = [&] {
    const WithoutGil without_gil;
    return footer.ReadLeafChunks(leaf);
  }();
  return ValueOrRaise(std::move(chunks));
}

py::list ReadPageCounts(const Footer& footer, int32_t leaf) {
  py::list row_groups;
  for (const auto& counts : ValueOrRaise(footer.ReadPageCounts(leaf))) {
    py::dict pages;
    for (const PageCount& count : counts) pages[py::str(count.encoding)] = count.pages;
    row_groups.append(std::move(pages));
  }
  return row_groups;
}

py::bytes TailOf(const Footer& footer) {
  return py::bytes(ValueOrRaise(footer.Serialize()));
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

  py::class_<FooterSchema, Schema>(m, "FooterSchema",
                                   "What the footers of files that are alike have in "
                                   "common. Immutable.")
      .def(py::init(&SchemaOf), py::arg("tail"))
      .def_property_readonly("text", &FooterSchema::Text,
                             "In words; two that say the same are the same.")
      .def_property_readonly(
          "tail",
          [](const FooterSchema& schema) {
            return py::bytes(ValueOrRaise(schema.Serialize()));
          },
          "The end of a file without row groups that has it.")
      .def(py::pickle(
          [](const FooterSchema& schema) {
            return py::make_tuple(py::bytes(ValueOrRaise(schema.Serialize())));
          },
          [](const py::tuple& state) { return SchemaOf(state[0].cast<py::bytes>()); }));

  py::class_<FooterSchemas>(m, "FooterSchemas", "Those of many files, each once.")
      .def(py::init<>())
      .def(
          "share",
          [](FooterSchemas& schemas, const Schema& schema) {
            return Held(ValueOrRaise(schemas.Share(schema)));
          },
          py::arg("schema"), "The one that is known and the same, else it.");

  py::class_<KeptFile, std::shared_ptr<KeptFile>>(
      m, "KeptFile", "A file that is not changed any more, open for reading.")
      .def(py::init<std::string>(), py::arg("path"));

  py::class_<Footer, std::shared_ptr<Footer>>(
      m, "Footer",
      "The footer of one Parquet file, parsed from the end of the file. Immutable.\n\n"
      "Raises CorruptFileError or UnsupportedTypeError, naming the file, the row group\n"
      "and the column where known.")
      .def(py::init(&MakeFooter), py::arg("tail"), py::arg("file_bytes"), py::arg("file"),
           py::arg("schemas") = nullptr)
      .def_static(
          "of_packed", &OfPacked, py::arg("packed"), py::arg("file_bytes"),
          py::arg("file"), py::arg("rows"), py::arg("schema"),
          "Of what pack() made, as bytes or a place in a file, and of the rows of\n"
          "its row groups as packed_rows has them.")
      .def("pack", &Pack, py::arg("tail"),
           "The footer in few bytes; `tail` is what it was made of.")
      .def_property_readonly("packed_rows", &RowsOf,
                             "Rows of each row group, as the bytes of int64 numbers.")
      .def_property_readonly(
          "schema", [](const Footer& footer) { return Held(footer.schema()); },
          "What files like it share.")
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
      .def("page_counts", &ReadPageCounts, py::arg("leaf"),
           "Data pages of one leaf column by encoding, a dict for each row group; empty "
           "where\nthe writer counted none.")
      .def_property_readonly("tail", &TailOf,
                             "The footer as the end of a file; other readers take it for "
                             "one.")
      .def("__arrow_c_schema__", &ExportLeafSchema,
           "Arrow PyCapsule of a schema with one field for each leaf, named by its "
           "dotted\n"
           "path, of the type that Arrow reads.")
      .def(py::pickle(&StateOf, &OfState));

  m.def(
      "summarize_leaves", &Summarize, py::arg("footers"), py::arg("leaves"),
      py::kw_only(), py::arg("statistics"),
      "Takes together what the footers say of columns, `leaves[column][file]` being the\n"
      "index of the leaf in the file, -1 = it lacks it. Without `statistics[column]` it\n"
      "is quicker, finds no nulls, and the bytes are those of the pages.");
}

}  // namespace fastload
