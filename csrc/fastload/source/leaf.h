// The leaf columns of a Parquet schema, as Arrow understands the schema.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrow/type_fwd.h"
#include "fastload/base/status.h"
#include "parquet/metadata.h"

namespace fastload {

// One leaf column of the schema.
struct Leaf {
  std::vector<std::string> path;  // from the root, e.g. {"a", "b"}
  // The path as users write it: without the groups in which the format stores lists, and
  // with "key" and "value" for the two fields of a map, e.g. {"l", "field"} or {"m",
  // "key"}.
  std::vector<std::string> names;
  std::string physical_type;  // name in the format, e.g. "INT64"
  std::string logical_type;   // e.g. "String"; "None" for a leaf without one
  int16_t max_definition_level = 0;
  int16_t max_repetition_level = 0;  // 0: flat, one value or null per row
  // For each of the max_repetition_level lists around a value, outermost first: the
  // number of elements by the writer's own Arrow schema; 0: any number.
  std::vector<int64_t> list_sizes;
  // How many of these lists are around each of `names`.
  std::vector<int64_t> lists_around;
  // The stored shape of the arrow.fixed_shape_tensor, if the innermost list is one; the
  // shape may have no dimension. tensor_permutation is the tensor's permutation, if any:
  // dimension i of the tensor is stored dimension permutation[i].
  std::optional<std::vector<int64_t>> tensor_shape;
  std::vector<int64_t> tensor_permutation;

  // Returns `names` joined by dots.
  std::string DottedName() const;

  bool operator==(const Leaf&) const = default;
};

struct Leaves {
  std::vector<Leaf> leaves;  // in the format's order (depth first)
  // One field for each leaf, named by its dotted path. The type is the type that Arrow
  // reads with the writer's own Arrow schema applied, without the lists and structs
  // around the leaf.
  std::shared_ptr<arrow::Schema> schema;
};

// Reads the leaf columns. Returns an Arrow status where Arrow does not understand the
// schema.
Result<Leaves> ReadLeaves(const parquet::FileMetaData& metadata);

}  // namespace fastload
