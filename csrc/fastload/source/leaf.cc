#include "fastload/source/leaf.h"

#include <utility>

#include "arrow/extension/fixed_shape_tensor.h"
#include "arrow/type.h"
#include "arrow/util/checked_cast.h"
#include "parquet/arrow/schema.h"
#include "parquet/properties.h"
#include "parquet/schema.h"

namespace fastload {

namespace {

using arrow::extension::FixedShapeTensorType;
using arrow::internal::checked_cast;
using parquet::arrow::SchemaField;

// The properties of a field that follow from the fields around the field.
struct Around {
  void Enter(std::string name) {
    names.push_back(std::move(name));
    lists_around.push_back(static_cast<int64_t>(list_sizes.size()));
  }

  std::vector<std::string> names;
  std::vector<int64_t> list_sizes;
  std::vector<int64_t> lists_around;             // each of the names
  const FixedShapeTensorType* tensor = nullptr;  // the list directly around the field
};

class LeafReader {
 public:
  explicit LeafReader(const parquet::SchemaDescriptor* schema)
      : schema_(schema),
        leaves_(static_cast<size_t>(schema->num_columns())),
        fields_(leaves_.size()) {}

  Status ReadRoot(const SchemaField& root) {
    Around around;
    around.Enter(root.field->name());
    return Read(root, std::move(around));
  }

  Result<Leaves> Finish() && {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (fields_[i] == nullptr) {
        return Status::KeyError("Expected leaf ", i,
                                " in the Arrow schema, got no such field");
      }
    }
    return Leaves{std::move(leaves_), arrow::schema(std::move(fields_))};
  }

 private:
  Status Read(const SchemaField& field, Around around) {
    if (field.is_leaf()) return ReadLeaf(field, std::move(around));
    const arrow::DataType* type = field.field->type().get();
    around.tensor = nullptr;
    if (type->id() == arrow::Type::EXTENSION) {
      const auto& extension = checked_cast<const arrow::ExtensionType&>(*type);
      if (extension.extension_name() == "arrow.fixed_shape_tensor") {
        around.tensor = &checked_cast<const FixedShapeTensorType&>(extension);
      }
      type = extension.storage_type().get();
    }
    switch (type->id()) {
      case arrow::Type::STRUCT:
        return ReadStruct(field, around);
      case arrow::Type::MAP:
        return ReadMap(field, std::move(around));
      case arrow::Type::FIXED_SIZE_LIST:
        around.list_sizes.push_back(
            checked_cast<const arrow::FixedSizeListType&>(*type).list_size());
        return ReadChild(field, 0, std::move(around));
      default:
        around.list_sizes.push_back(0);
        return ReadChild(field, 0, std::move(around));
    }
  }

  Status ReadChild(const SchemaField& field, size_t child, Around around) {
    if (child >= field.children.size()) {
      return Status::Invalid("Expected child ", child, " of a field of type ",
                             field.field->type()->ToString(), ", got none");
    }
    return Read(field.children[child], std::move(around));
  }

  Status ReadStruct(const SchemaField& field, const Around& around) {
    for (const SchemaField& child : field.children) {
      Around inside = around;
      inside.Enter(child.field->name());
      inside.tensor = nullptr;
      ARROW_RETURN_NOT_OK(Read(child, std::move(inside)));
    }
    return Status::OK();
  }

  // Reads a map, which is a list of entries; writers give the entries and their fields
  // any names.
  Status ReadMap(const SchemaField& field, Around around) {
    if (field.children.size() != 1 || field.children[0].children.size() != 2) {
      return Status::Invalid("Expected a map of keys and values, got another group");
    }
    around.list_sizes.push_back(0);
    Around value = around;
    around.Enter("key");
    value.Enter("value");
    ARROW_RETURN_NOT_OK(ReadChild(field.children[0], 0, std::move(around)));
    return ReadChild(field.children[0], 1, std::move(value));
  }

  Status ReadLeaf(const SchemaField& field, Around around) {
    const parquet::ColumnDescriptor* descr = schema_->Column(field.column_index);
    const auto& logical = descr->logical_type();
    Leaf leaf{
        .path = descr->path()->ToDotVector(),
        .names = std::move(around.names),
        .physical_type = parquet::TypeToString(descr->physical_type()),
        .logical_type = logical == nullptr ? "None" : logical->ToString(),
        .max_definition_level = descr->max_definition_level(),
        .max_repetition_level = descr->max_repetition_level(),
        .list_sizes = std::move(around.list_sizes),
        .lists_around = std::move(around.lists_around),
    };
    if (around.tensor != nullptr) {
      leaf.tensor_shape = around.tensor->shape();
      leaf.tensor_permutation = around.tensor->permutation();
    }
    if (static_cast<int64_t>(leaf.list_sizes.size()) != leaf.max_repetition_level) {
      return Status::Invalid("Expected ", leaf.max_repetition_level, " lists around `",
                             descr->path()->ToDotString(), "`, got ",
                             leaf.list_sizes.size());
    }
    const auto index = static_cast<size_t>(field.column_index);
    leaves_[index] = std::move(leaf);
    // Only the type is definite; names and metadata of nested fields are not needed.
    fields_[index] = arrow::field(descr->path()->ToDotString(), field.field->type(),
                                  /*nullable=*/true, field.field->metadata());
    return Status::OK();
  }

  const parquet::SchemaDescriptor* schema_;
  std::vector<Leaf> leaves_;
  arrow::FieldVector fields_;
};

}  // namespace

std::string Leaf::DottedName() const {
  std::string dotted;
  for (const std::string& name : names) {
    if (&name != names.data()) dotted += '.';
    dotted += name;
  }
  return dotted;
}

Result<Leaves> ReadLeaves(const parquet::FileMetaData& metadata) {
  const parquet::SchemaDescriptor* schema = metadata.schema();
  parquet::arrow::SchemaManifest manifest;
  ARROW_RETURN_NOT_OK(
      parquet::arrow::SchemaManifest::Make(schema, metadata.key_value_metadata(),
                                           parquet::ArrowReaderProperties(), &manifest));
  LeafReader reader(schema);
  for (const SchemaField& root : manifest.schema_fields) {
    ARROW_RETURN_NOT_OK(reader.ReadRoot(root));
  }
  return std::move(reader).Finish();
}

}  // namespace fastload
