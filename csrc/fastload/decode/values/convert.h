// Stored values, as PLAIN lays them out, to elements of a tensor.
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

// Converts the raw values of one column to the dtype of its spec. Thread-safe: never
// changes.
class Converter {
 public:
  // For a column chunk of the file of that index. ErrorKind::kUnsupported if the column
  // holds nothing that the spec can ask of it. `spec` is borrowed.
  static Result<Converter> Make(const parquet::ColumnDescriptor& descr,
                                const ColumnSpec& spec, int32_t file);

  // The raw values are parquet::ByteArrays.
  bool of_views() const { return of_views_; }

  // Bytes of one raw value: of a parquet::ByteArray, else as PLAIN stores it, but a byte
  // for BOOLEAN.
  int raw_width() const { return raw_width_; }

  // Converted values are the raw ones.
  bool identity() const { return identity_; }

  // Bytes of one converted value.
  int item_size() const { return item_size_; }

  // A value that does not fit is an ErrorKind::kValue, with the number of the first of
  // them (AtValue).
  Status Convert(const uint8_t* raw, int64_t n, uint8_t* out) const;

 private:
  Converter() = default;
  Status ConvertThroughBlocks(const uint8_t* raw, int64_t n, uint8_t* out) const;
  Status ConvertBlock(const uint8_t* raw, int64_t n, uint8_t* out) const;
  Status Multiply(int64_t n, int64_t* values) const;
  Status DoesNotFit(const Offender& offender) const;

  const ColumnSpec* spec_ = nullptr;
  int raw_width_ = 0;
  int item_size_ = 0;
  int64_t multiplier_ = 1;
  bool of_views_ = false;
  bool identity_ = false;  // the raw values are the elements as they are
  bool checked_ = false;
  std::optional<KeyEncoder> keys_;
  // Where values go through int64 or double: one of these makes them.
  std::optional<DecimalValues> decimals_;
  CastFn load_ = nullptr;  // raw integers, for a multiplier
  CastFn cast_ = nullptr;
};

}  // namespace fastload
