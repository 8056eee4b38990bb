// Nested columns, with the specs that read them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arrow/api.h"
#include "fastload/plan/columns.h"
#include "nested_file.h"

namespace fastload::testing {

// Returns lists of every kind inside lists of every kind.
inline std::vector<NestedCase> NestedCases() {
  const auto required = [](const std::shared_ptr<arrow::DataType>& type) {
    return arrow::field("element", type, /*nullable=*/false);
  };
  const auto i32 = arrow::int32();
  const auto f64 = arrow::float64();
  const auto text = arrow::utf8();
  const auto pair =
      arrow::struct_({arrow::field("a", i32), arrow::field("b", arrow::list(text))});
  const auto around = arrow::struct_({arrow::field("list", arrow::list(pair))});
  return {
      {"list<int32>", arrow::list(i32), {}},
      {"required list<required int32>", arrow::list(required(i32)), {}, 1, 0, false},
      {"list<required int32>", arrow::list(required(i32)), {}},
      {"large_list<double>", arrow::large_list(f64), {}},
      {"list<bool>", arrow::list(arrow::boolean()), {}},
      {"list<string>", arrow::list(text), {}},
      {"list<list<double>>", arrow::list(arrow::list(f64)), {}, 2},
      {"list<required list<required string>>",
       arrow::list(required(arrow::list(required(text)))),
       {},
       2},
      {"list<list<list<int32>>>", arrow::list(arrow::list(arrow::list(i32))), {}, 3},
      {"map key", arrow::map(text, i32), {0}},
      {"map value", arrow::map(text, i32), {1}},
      {"struct<list<struct>>.a", around, {0, 0}, 1},
      {"struct<list<struct>>.b", around, {0, 1}, 2},
      {"fixed_size_list as a list", arrow::fixed_size_list(i32, 3), {}},
      {"list<fixed_size_list<double>>",
       arrow::list(arrow::fixed_size_list(f64, 4)),
       {},
       1,
       4},
      {"list<fixed_size_list<int32, 21>>",
       arrow::list(arrow::fixed_size_list(i32, 21)),
       {},
       1,
       21},
      {"list<fixed_size_list<fixed_size_list<int32>>>",
       arrow::list(arrow::fixed_size_list(arrow::fixed_size_list(i32, 2), 3)),
       {},
       1,
       6},
  };
}

inline const arrow::DataType& LeafType(const NestedCase& nested) {
  const arrow::DataType* type = nested.type.get();
  size_t at = 0;
  while (type->num_fields() > 0) {
    const bool child = type->id() == arrow::Type::STRUCT;
    type = type->field(child ? nested.path[at++] : 0)->type().get();
  }
  return *type;
}

// Returns a spec in which every null has a fill.
inline ColumnSpec SpecOf(const NestedCase& nested) {
  ColumnSpec spec;
  spec.name = "column";
  spec.depth = nested.depth;
  spec.list_size = nested.list_size;
  spec.null_lists = true;
  switch (LeafType(nested).id()) {
    case arrow::Type::INT32:
      spec.dtype = DType::kInt32;
      break;
    case arrow::Type::DOUBLE:
      spec.dtype = DType::kFloat64;
      break;
    case arrow::Type::BOOL:
      spec.dtype = DType::kBool;
      break;
    default:
      spec.dtype = DType::kUInt8;
      spec.bytes = true;
  }
  spec.fill = spec.bytes ? "(null)"
                         : std::string(static_cast<size_t>(ItemSize(spec.dtype)), '\x5A');
  return spec;
}

}  // namespace fastload::testing
