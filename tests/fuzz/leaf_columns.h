// The columns as which a file's leaves are read by default, as fastload.schema.leaf_types
// defines them, with a fill for nulls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrow/api.h"
#include "arrow/extension_type.h"
#include "fastload/plan/columns.h"
#include "fastload/source/footer.h"

namespace fastload::testing {

struct NumberType {
  DType dtype;
  bool cast = false;
  int64_t multiplier = 1;
  bool unscaled = false;
};

// nullopt: not of fixed width, or of no type that is read.
inline std::optional<NumberType> NumberTypeOf(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return NumberType{DType::kBool};
    case arrow::Type::UINT8:
      return NumberType{DType::kUInt8};
    case arrow::Type::INT8:
      return NumberType{DType::kInt8};
    case arrow::Type::UINT16:
      return NumberType{DType::kUInt16};
    case arrow::Type::INT16:
      return NumberType{DType::kInt16};
    case arrow::Type::UINT32:
      return NumberType{DType::kUInt32};
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
      return NumberType{DType::kInt32};
    case arrow::Type::UINT64:
      return NumberType{DType::kUInt64};
    case arrow::Type::INT64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return NumberType{DType::kInt64};
    case arrow::Type::TIME32:
      return NumberType{DType::kInt64, /*cast=*/true};
    case arrow::Type::DATE64:
      return NumberType{DType::kInt64, /*cast=*/false, /*multiplier=*/86'400'000};
    case arrow::Type::HALF_FLOAT:
      return NumberType{DType::kFloat16};
    case arrow::Type::FLOAT:
      return NumberType{DType::kFloat32};
    case arrow::Type::DOUBLE:
      return NumberType{DType::kFloat64};
    case arrow::Type::DECIMAL32:
    case arrow::Type::DECIMAL64:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return NumberType{DType::kInt64, /*cast=*/true, /*multiplier=*/1,
                        /*unscaled=*/true};
    default:
      return std::nullopt;
  }
}

inline bool IsBytes(arrow::Type::type id) {
  return arrow::is_base_binary_like(id) || arrow::is_binary_view_like(id) ||
         id == arrow::Type::FIXED_SIZE_BINARY;
}

// nullopt: of a type that is not read, such as null.
inline std::optional<ColumnSpec> ColumnOf(const Footer& footer, int32_t leaf) {
  const Leaf& found = footer.leaves()[static_cast<size_t>(leaf)];
  std::shared_ptr<arrow::DataType> type = footer.leaf_schema()->field(leaf)->type();
  while (true) {
    if (type->id() == arrow::Type::EXTENSION) {
      type = static_cast<const arrow::ExtensionType&>(*type).storage_type();
    } else if (type->id() == arrow::Type::DICTIONARY) {
      type = static_cast<const arrow::DictionaryType&>(*type).value_type();
    } else {
      break;
    }
  }
  ColumnSpec spec;
  spec.name = found.DottedName();
  spec.leaves = {leaf};
  spec.null_lists = true;
  size_t depth = found.list_sizes.size();
  if (IsBytes(type->id())) {
    spec.dtype = DType::kUInt8;
    spec.bytes = true;
    spec.fill = "";
  } else if (const auto number = NumberTypeOf(*type)) {
    spec.dtype = number->dtype;
    spec.cast = number->cast;
    spec.unscaled = number->unscaled;
    if (number->multiplier != 1) spec.multipliers = {number->multiplier};
    spec.fill = std::string(static_cast<size_t>(ItemSize(spec.dtype)), '\0');
    int64_t elements = 1;
    while (depth > 0 && found.list_sizes[depth - 1] > 0) {
      if (__builtin_mul_overflow(elements, found.list_sizes[--depth], &elements)) {
        return std::nullopt;
      }
      spec.list_size = elements;
    }
  } else {
    return std::nullopt;
  }
  spec.depth = static_cast<int32_t>(depth);
  return spec;
}

// Its values, and whether each row has one.
inline std::vector<OutputSpec> OutputsOf(const ColumnSpec& spec) {
  OutputKind kind = OutputKind::kColumn;
  if (spec.bytes || spec.depth > 0) {
    kind = OutputKind::kRagged;
  } else if (spec.list_size > 0) {
    kind = OutputKind::kList;
  }
  return {{.kind = kind, .columns = {0}}, {.kind = OutputKind::kValid, .columns = {0}}};
}

}  // namespace fastload::testing
