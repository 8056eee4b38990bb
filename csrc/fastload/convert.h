// Stored values, as PLAIN lays them out, to elements of a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/columns.h"
#include "fastload/status.h"
#include "parquet/schema.h"

namespace fastload {

// "int8", "bfloat16", ...
std::string_view NameOf(DType dtype);

// Casts `n` raw values. On failure `offender` is the first value that does not fit.
using CastFn = bool (*)(const uint8_t* raw, int64_t n, uint8_t* out,
                        std::string* offender);

// The meaning of a raw value, from its physical and its logical type.
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

// The cast of a stored type other than kDecimal. With `exact` an integer that would be
// rounded does not fit.
CastFn FindCast(Stored stored, DType dtype, bool exact = false);

// Converts the raw values of one column to the dtype of its spec. Not thread-safe: holds
// scratch.
class Converter {
 public:
  // For a column chunk of the file of that index. ErrorKind::kUnsupported if the column
  // holds no fixed-width values. `spec` is borrowed.
  static Result<Converter> Make(const parquet::ColumnDescriptor& descr,
                                const ColumnSpec& spec, int32_t file);

  // Bytes of one raw value: as PLAIN stores it, but a byte for BOOLEAN and a
  // parquet::ByteArray for BYTE_ARRAY.
  int raw_width() const { return raw_width_; }

  // Bytes of one converted value.
  int item_size() const { return item_size_; }

  // The raw values are the elements as they are.
  bool identity() const { return identity_; }

  // A value that does not fit is an ErrorKind::kValue.
  Status Convert(const uint8_t* raw, int64_t n, uint8_t* out);

 private:
  Converter() = default;
  Status ConvertThroughBlocks(const uint8_t* raw, int64_t n, uint8_t* out);
  Status LoadIntegers(const uint8_t* raw, int64_t n, int64_t* out);
  Status LoadDecimals(const uint8_t* raw, int64_t n, uint8_t* out);
  Status DoesNotFit(const std::string& offender) const;

  const ColumnSpec* spec_ = nullptr;
  Stored stored_ = Stored::kInt64;
  parquet::Type::type physical_ = parquet::Type::INT64;
  int raw_width_ = 0;
  int item_size_ = 0;
  int scale_ = 0;
  int64_t multiplier_ = 1;
  bool identity_ = false;
  bool checked_ = false;
  bool direct_ = true;     // cast_ takes raw values; else those of a block
  CastFn load_ = nullptr;  // raw values to int64, for a multiplier
  CastFn cast_ = nullptr;
};

}  // namespace fastload
