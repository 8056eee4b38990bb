// The meaning of the raw values of a column.
#pragma once

#include <cstdint>

#include "fastload/base/status.h"
#include "parquet/schema.h"

namespace fastload {

// The meaning of a raw value, which follows from its physical type and its logical type.
enum class Stored : uint8_t {
  kBool,  // one byte, 0 or 1
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kInt96,
  kDecimal,
};

// Returns the stored type, or ErrorKind::kUnsupported if the column has no fixed-width
// values.
Result<Stored> StoredOf(const parquet::ColumnDescriptor& descr);

inline bool IsInteger(Stored stored) {
  return (stored >= Stored::kInt8 && stored <= Stored::kUInt64) ||
         stored == Stored::kInt96;
}

// Returns a description for errors: "INT32 (Date)".
std::string Describe(const parquet::ColumnDescriptor& descr);

}  // namespace fastload
