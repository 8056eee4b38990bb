#include "fastload/source/footer.h"

#include <algorithm>
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
#include "fastload/base/hash.h"
#include "fastload/source/leaf_summary.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

constexpr const char kSchemaCapsule[] = "arrow_schema";

// Deletes a schema by the rules of the Arrow PyCapsule interface: an importer marks the
// schema as released.
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
  schema.release();  // the capsule owns the schema now
  return py::reinterpret_steal<py::object>(capsule);
}

std::shared_ptr<Footer> MakeFooter(const py::bytes& tail, int64_t file_bytes,
                                   std::string file, FooterSchemas* schemas) {
  // A bytes object is immutable, and the caller's reference keeps the object alive.
  const std::string_view view = tail;
  return ValueOrRaise(CallWithoutGil(
      [&] { return Footer::Make(view, file_bytes, std::move(file), schemas); }));
}

// pybind11 holds objects by pointers to non-const.
using Schema = std::shared_ptr<FooterSchema>;
Schema Held(const std::shared_ptr<const FooterSchema>& schema) {
  return std::const_pointer_cast<FooterSchema>(schema);
}

// Kept bytes: (file, offset, bytes), or the bytes themselves.
using Kept =
    std::variant<std::tuple<std::shared_ptr<KeptFile>, int64_t, int64_t>, py::bytes>;

// `rows` are int64 numbers in the machine's order.
std::shared_ptr<Footer> OfPacked(const Kept& kept, int64_t file_bytes, std::string file,
                                 const py::bytes& rows, Schema schema) {
  const std::string_view numbers = rows;
  std::vector<int64_t> row_group_rows(numbers.size() / sizeof(int64_t));
  // Without row groups `data()` may be null, which memcpy may not get.
  std::copy_n(numbers.data(), row_group_rows.size() * sizeof(int64_t),
              reinterpret_cast<char*>(row_group_rows.data()));
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

py::bytes Pack(const Footer& footer) {
  return ValueOrRaise(CallWithoutGil([&] { return footer.Pack(); }));
}

py::bytes PackedRowsOf(const Footer& footer) {
  const auto& rows = footer.row_group_rows();
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(int64_t)};
}

Schema SchemaOfTail(const py::bytes& tail) {
  const std::string_view view = tail;
  const auto bytes = static_cast<int64_t>(view.size());
  // The file has nothing but the footer, and the magic at its beginning.
  return Held(ValueOrRaise(Footer::Make(view, bytes + 4, ""))->schema());
}

// Returns true if what is pickled goes to a process that multiprocessing starts.
bool IsSpawning() {
  const auto context = py::module_::import("multiprocessing.context");
  return !context.attr("get_spawning_popen")().is_none();
}

py::tuple StateOf(const Footer& footer) {
  if (!footer.packed()) {
    const std::string tail = ValueOrRaise(footer.Tail());
    return py::make_tuple(py::bytes(tail), footer.file_bytes(), py::bytes(footer.file()));
  }
  const KeptBytes& kept = footer.kept();
  py::object packed;
  if (kept.file() != nullptr && IsSpawning() && kept.file()->GetName().ok()) {
    // The process that is being started opens the file, too.
    packed = py::make_tuple(std::const_pointer_cast<KeptFile>(kept.file()), kept.offset(),
                            kept.size());
  } else {
    packed = py::bytes(ValueOrRaise(footer.Pack()));
  }
  return py::make_tuple(packed, footer.file_bytes(), py::bytes(footer.file()),
                        PackedRowsOf(footer), Held(footer.schema()));
}

std::shared_ptr<Footer> OfState(const py::tuple& state) {
  const auto size = state[1].cast<int64_t>();
  auto file = state[2].cast<std::string>();
  if (state.size() == 3) {
    return MakeFooter(state[0].cast<py::bytes>(), size, std::move(file), nullptr);
  }
  return OfPacked(state[0].cast<Kept>(), size, std::move(file),
                  state[3].cast<py::bytes>(), state[4].cast<Schema>());
}

// The footer's sizes and counts of one leaf column, by row group index.
struct LeafChunks {
  std::vector<int64_t> offset;
  std::vector<int64_t> compressed_bytes;
  std::vector<int64_t> uncompressed_bytes;
  std::vector<int64_t> num_values;
  std::vector<int64_t> value_bytes;
  std::vector<int64_t> null_count;
};

LeafChunks ReadLeafChunks(const Footer& footer, int32_t leaf) {
  LeafChunks chunks;
  const auto read = ValueOrRaise(CallWithoutGil([&] { return footer.Chunks(leaf); }));
  for (const FooterChunk& chunk : read) {
    chunks.offset.push_back(chunk.offset);
    chunks.compressed_bytes.push_back(chunk.compressed_bytes);
    chunks.uncompressed_bytes.push_back(chunk.uncompressed_bytes);
    chunks.num_values.push_back(chunk.values);
    chunks.value_bytes.push_back(chunk.value_bytes);
    chunks.null_count.push_back(chunk.nulls);
  }
  return chunks;
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

py::bytes TailOf(const Footer& footer) { return py::bytes(ValueOrRaise(footer.Tail())); }

std::vector<LeafSummary> Summarize(const std::vector<std::shared_ptr<Footer>>& footers,
                                   const std::vector<std::vector<int32_t>>& leaves) {
  return ValueOrRaise(CallWithoutGil([&] { return SummarizeLeaves(footers, leaves); }));
}

}  // namespace

void RegisterFooter(py::module_& m) {
  py::class_<Leaf>(m, "Leaf", "One leaf column of a Parquet schema.")
      .def_property_readonly(
          "path", [](const Leaf& leaf) { return py::tuple(py::cast(leaf.path)); },
          "Names from the root, a tuple of str.")
      .def_property_readonly(
          "names", [](const Leaf& leaf) { return py::tuple(py::cast(leaf.names)); },
          "The path as users write it, a tuple of str: without the groups in which\n"
          "the format stores lists, and with key and value for the fields of a map.")
      .def_readonly("physical_type", &Leaf::physical_type,
                    "Name in the format, such as INT64.")
      .def_readonly(
          "logical_type", &Leaf::logical_type,
          "Name that Arrow prints, such as String; None without a logical type.")
      .def_readonly("max_definition_level", &Leaf::max_definition_level,
                    "0: no nulls are possible.")
      .def_property_readonly(
          "list_sizes",
          [](const Leaf& leaf) { return py::tuple(py::cast(leaf.list_sizes)); },
          "Number of elements of each list around a value, outermost first; 0 = any\n"
          "number.")
      .def_property_readonly(
          "lists_around",
          [](const Leaf& leaf) { return py::tuple(py::cast(leaf.lists_around)); },
          "Number of these lists that are around each of `names`.")
      .def_property_readonly(
          "tensor_shape",
          [](const Leaf& leaf) -> std::optional<py::tuple> {
            if (!leaf.tensor_shape.has_value()) return std::nullopt;
            return py::tuple(py::cast(*leaf.tensor_shape));
          },
          "Stored shape of the innermost list if it is an arrow.fixed_shape_tensor,\n"
          "else None.")
      .def_property_readonly(
          "tensor_permutation",
          [](const Leaf& leaf) { return py::tuple(py::cast(leaf.tensor_permutation)); },
          "Dimension i of the tensor is stored dimension permutation[i]; empty if the\n"
          "dimensions are stored in order.");

  py::class_<LeafChunks>(
      m, "LeafChunks",
      "A footer's sizes and counts of one leaf column, by row group index.")
      .def_readonly("offset", &LeafChunks::offset, "Offset of the first page.")
      .def_readonly("compressed_bytes", &LeafChunks::compressed_bytes,
                    "Bytes in the file.")
      .def_readonly("uncompressed_bytes", &LeafChunks::uncompressed_bytes,
                    "Bytes of the decompressed pages, headers included.")
      .def_readonly(
          "num_values", &LeafChunks::num_values,
          "Number of values: nulls included, and one for each list without elements.")
      .def_readonly("value_bytes", &LeafChunks::value_bytes,
                    "Bytes of all byte-array values; -1 = unknown.")
      .def_readonly("null_count", &LeafChunks::null_count,
                    "Number of nulls at any level; -1 = unknown.");

  py::class_<LeafSummary>(m, "LeafSummary",
                          "A summary of the footers of many files for one leaf column.")
      .def_readonly("values", &LeafSummary::values,
                    "Number of elements: nulls included, and one for each list without\n"
                    "elements.")
      .def_readonly("value_bytes", &LeafSummary::value_bytes,
                    "Bytes of all byte-array values, or of the pages where unknown.")
      .def_readonly("null_file", &LeafSummary::null_file,
                    "Index of the first file that is known to contain a null; -1 = none.")
      .def_readonly("null_row_group", &LeafSummary::null_row_group,
                    "Row group of that file with the null; -1 = none.")
      .def_readonly("nulls", &LeafSummary::nulls,
                    "Number of nulls that footers tell of, at any level of lists.")
      .def_readonly(
          "nulls_known", &LeafSummary::nulls_known,
          "False if some row group may contain a null that its footer does not\n"
          "tell of.");

  py::class_<FooterSchema, Schema>(
      m, "FooterSchema", "The schema that the footers of similar files share. Immutable.")
      .def(py::init(&SchemaOfTail), py::arg("tail"))
      .def_property_readonly("text", &FooterSchema::Text,
                             "The schema as text; schemas with equal texts are equal.")
      .def_property_readonly(
          "tail",
          [](const FooterSchema& schema) {
            return py::bytes(ValueOrRaise(schema.Serialize()));
          },
          "The end of a file that has this schema and no row groups.")
      .def(py::pickle(
          [](const FooterSchema& schema) {
            return py::make_tuple(py::bytes(ValueOrRaise(schema.Serialize())));
          },
          [](const py::tuple& state) {
            return SchemaOfTail(state[0].cast<py::bytes>());
          }));

  py::class_<FooterSchemas>(m, "FooterSchemas",
                            "A set of the different schemas of many files.")
      .def(py::init<>())
      .def(
          "share",
          [](FooterSchemas& schemas, const Schema& schema) {
            return Held(ValueOrRaise(schemas.Share(schema)));
          },
          py::arg("schema"),
          "Returns the equal schema of the set; adds `schema` if there is none.");

  py::class_<KeptFile, std::shared_ptr<KeptFile>>(
      m, "KeptFile", "A file that no longer changes, open for reading.")
      .def(py::init<std::string>(), py::arg("path"))
      .def(
          "hash",
          [](const KeptFile& file, int64_t offset) {
            return ValueOrRaise(CallWithoutGil([&] { return file.Hash(offset); }));
          },
          py::arg("offset"), "Returns the Hash64 of the bytes from `offset` on.")
      .def(py::pickle(
          [](const KeptFile& file) {
            const KeptFile::Name name = ValueOrRaise(file.GetName());
            return py::make_tuple(py::bytes(name.path), name.open_as, name.device,
                                  name.inode);
          },
          [](const py::tuple& state) {
            return KeptFile::Of({.path = state[0].cast<std::string>(),
                                 .open_as = state[1].cast<std::string>(),
                                 .device = state[2].cast<uint64_t>(),
                                 .inode = state[3].cast<uint64_t>()});
          }));

  py::class_<Hash64Stream>(m, "Hash64", "The XXH64 of bytes that come in parts.")
      .def(py::init<>())
      .def(
          "update",
          [](Hash64Stream& hash, const py::bytes& part) {
            const std::string_view view = part;
            CallWithoutGil([&] { hash.Update(view.data(), view.size()); });
          },
          py::arg("part"))
      .def_property_readonly("digest", &Hash64Stream::Digest);

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
          "Makes a footer from the bytes that pack() returned, as bytes or as a range\n"
          "of a file, and from packed_rows.")
      .def("pack", &Pack, "Packs the footer into few bytes.")
      .def_property_readonly("packed_rows", &PackedRowsOf,
                             "Rows of each row group, as the bytes of int64 numbers.")
      .def_property_readonly(
          "schema", [](const Footer& footer) { return Held(footer.schema()); },
          "The schema that similar files share.")
      .def_static(
          "tail_bytes",
          [](const py::bytes& tail, int64_t file_bytes, const std::string& file) {
            return ValueOrRaise(Footer::TailBytes(tail, file_bytes, file));
          },
          py::arg("tail"), py::arg("file_bytes"), py::arg("file"),
          "Returns how many bytes at the end of the file hold the footer, trailer\n"
          "included, given the last 8 bytes (or more) of the file.")
      .def_property_readonly(
          "file",
          [](const Footer& footer) {
            return py::module_::import("os").attr("fsdecode")(py::bytes(footer.file()));
          },
          "Name of the file in errors.")
      .def_property_readonly("file_bytes", &Footer::file_bytes, "Size of the file.")
      .def_property_readonly("num_rows", &Footer::num_rows, "Rows of all row groups.")
      .def_property_readonly("row_group_rows", &Footer::row_group_rows,
                             "Rows of each row group.")
      .def_property_readonly("leaves", &Footer::leaves,
                             "Leaf columns in the format's order.")
      .def("same_schema", &Footer::SameSchema, py::arg("other"),
           "Returns True if both footers have the same leaves and Arrow types.")
      .def("leaf_chunks", &ReadLeafChunks, py::arg("leaf"),
           "Returns sizes and null counts of one leaf column, by its index in\n"
           "`leaves`.")
      .def_property_readonly("plain", &Footer::plain,
                             "False if the footer is odd in any way, so that all of it\n"
                             "was parsed by libparquet.")
      .def("page_counts", &ReadPageCounts, py::arg("leaf"),
           "Returns the number of data pages of one leaf column by encoding, as a dict\n"
           "for each row group; empty where the writer counted no pages.")
      .def_property_readonly(
          "tail", &TailOf,
          "The footer as the end of a file, which other readers accept as a footer.")
      .def("__arrow_c_schema__", &ExportLeafSchema,
           "Returns the Arrow PyCapsule of a schema with one field for each leaf,\n"
           "which has the leaf's dotted path and the type that Arrow reads.")
      .def(py::pickle(&StateOf, &OfState));

  m.def("summarize_leaves", &Summarize, py::arg("footers"), py::arg("leaves"),
        "Summarizes what the footers say about columns. `leaves[column][file]` is\n"
        "the index of the leaf in the file; -1 = the file lacks the column.");
}

}  // namespace fastload
