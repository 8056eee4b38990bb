#include "fastload/decode/values/stored.h"

#include <string>

#include "parquet/types.h"

namespace fastload {

namespace {

Stored StoredInt32(const parquet::LogicalType& logical) {
  if (!logical.is_int()) return Stored::kInt32;
  const auto& type = static_cast<const parquet::IntLogicalType&>(logical);
  switch (type.bit_width()) {
    case 8:
      return type.is_signed() ? Stored::kInt8 : Stored::kUInt8;
    case 16:
      return type.is_signed() ? Stored::kInt16 : Stored::kUInt16;
    default:
      return type.is_signed() ? Stored::kInt32 : Stored::kUInt32;
  }
}

Stored StoredInt64(const parquet::LogicalType& logical) {
  if (!logical.is_int()) return Stored::kInt64;
  const auto& type = static_cast<const parquet::IntLogicalType&>(logical);
  return type.is_signed() ? Stored::kInt64 : Stored::kUInt64;
}

}  // namespace

Result<Stored> StoredOf(const parquet::ColumnDescriptor& descr) {
  const parquet::LogicalType& logical = *descr.logical_type();
  const parquet::Type::type physical = descr.physical_type();
  // No value of a column of type null is read, whatever its physical type.
  if (logical.is_null()) return Stored::kBool;
  const bool bytes = physical == parquet::Type::BYTE_ARRAY ||
                     physical == parquet::Type::FIXED_LEN_BYTE_ARRAY;
  if (logical.is_decimal()) {
    if (physical == parquet::Type::INT32 || physical == parquet::Type::INT64 || bytes) {
      return Stored::kDecimal;
    }
  }
  switch (physical) {
    case parquet::Type::BOOLEAN:
      return Stored::kBool;
    case parquet::Type::INT32:
      return StoredInt32(logical);
    case parquet::Type::INT64:
      return StoredInt64(logical);
    case parquet::Type::INT96:
      return Stored::kInt96;
    case parquet::Type::FLOAT:
      return Stored::kFloat32;
    case parquet::Type::DOUBLE:
      return Stored::kFloat64;
    default:
      break;
  }
  if (logical.is_float16() && descr.type_length() == 2) return Stored::kFloat16;
  return MakeError(ErrorKind::kUnsupported,
                   "Expected a column of fixed-width values, got " + Describe(descr));
}

std::string Describe(const parquet::ColumnDescriptor& descr) {
  return parquet::TypeToString(descr.physical_type()) + " (" +
         descr.logical_type()->ToString() + ")";
}

}  // namespace fastload
