// Conversion of stored values, as PLAIN stores values, to elements of a tensor.
#pragma once

#include <cstdint>
#include <optional>

#include "fastload/base/status.h"
#include "fastload/decode/values/cast.h"
#include "fastload/decode/values/decimal_values.h"
#include "fastload/decode/values/key_encoder.h"
#include "fastload/plan/columns.h"
#include "parquet/schema.h"

namespace fastload {

// A converter of the raw values of one column to the dtype of the column's spec.
// Immutable, so thread-safe.
class Converter {
 public:
  // Makes a converter for column chunks of file number `file`. Returns
  // ErrorKind::kUnsupported if the column's type can't become what the spec asks for.
  // `spec` is borrowed.
  static Result<Converter> Make(const parquet::ColumnDescriptor& descr,
                                const ColumnSpec& spec, int32_t file);

  // Returns true if the raw values are parquet::ByteArrays.
  bool of_views() const { return of_views_; }

  // Returns the bytes of one raw value: of a parquet::ByteArray, or else of the value in
  // PLAIN, but one byte for BOOLEAN.
  int raw_width() const { return raw_width_; }

  // Returns true if converted values equal raw values.
  bool identity() const { return identity_; }

  // Returns the bytes of one converted value.
  int item_size() const { return item_size_; }

  // Converts n values. A value that does not fit is an ErrorKind::kValue, with the number
  // of the first such value (AtValue).
  Status Convert(const uint8_t* raw, int64_t n, uint8_t* out) const;

 private:
  Converter() = default;
  Status ConvertThroughBlocks(const uint8_t* raw, int64_t n, uint8_t* out) const;
  Status ConvertBlock(const uint8_t* raw, int64_t n, uint8_t* out) const;
  Status Multiply(int64_t n, int64_t* values) const;
  Status Divide(int64_t n, int64_t* values) const;
  Status DoesNotFit(const Offender& offender) const;

  const ColumnSpec* spec_ = nullptr;
  int raw_width_ = 0;
  int item_size_ = 0;
  int64_t multiplier_ = 1;  // below 0: values are divided by -multiplier_
  bool int96_ = false;
  bool of_views_ = false;
  bool identity_ = false;  // raw values are the elements unchanged
  bool checked_ = false;
  std::optional<KeyEncoder> keys_;
  // The first step where values go through int64 or double: decimals_ or load_.
  std::optional<DecimalValues> decimals_;
  CastFn load_ = nullptr;  // raw integers to int64, for a multiplier
  CastFn cast_ = nullptr;
};

}  // namespace fastload
