// The leaf columns of a Parquet schema, as Arrow understands them.
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
  // As users name it: the path without the groups that lists are written as, and with
  // "key" and "value" for those of a map, e.g. {"l", "field"} or {"m", "key"}.
  std::vector<std::string> names;
  std::string physical_type;  // as the format names it, e.g. "INT64"
  std::string logical_type;   // e.g. "String"; "None" where there is none
  int16_t max_definition_level = 0;
  int16_t max_repetition_level = 0;  // 0: flat, one value or null a row
  // The lists around a value, outermost first, max_repetition_level of them: how many
  // elements each has by the writer's own Arrow schema; 0 = any number.
  std::vector<int64_t> list_sizes;
  // Where the innermost list is an arrow.fixed_shape_tensor: its shape as stored, which
  // may have no dimension, and its permutation (dimension i of the tensor is dimension
  // permutation[i] as stored), if any.
  std::optional<std::vector<int64_t>> tensor_shape;
  std::vector<int64_t> tensor_permutation;

  // `names` with dots between.
  std::string DottedName() const;

  bool operator==(const Leaf&) const = default;
};

struct Leaves {
  std::vector<Leaf> leaves;  // in the order of the format (depth first)
  // One field for each leaf, named by its dotted path, of the type that Arrow reads: what
  // the writer's own Arrow schema says is applied. Types are those of the leaves, without
  // the lists and structs around them.
  std::shared_ptr<arrow::Schema> schema;
};

// An Arrow status where Arrow can't make sense of the schema.
Result<Leaves> ReadLeaves(const parquet::FileMetaData& metadata);

}  // namespace fastload
