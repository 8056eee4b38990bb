// Conversion of a column's raw decimals to unscaled integers or to doubles.
#pragma once

#include <cstdint>
#include <optional>

#include "fastload/base/status.h"
#include "fastload/decode/values/cast.h"
#include "fastload/decode/values/decimal.h"
#include "parquet/schema.h"

namespace fastload {

class DecimalValues {
 public:
  // Makes a conversion to int64 if `unscaled`, else to double. Returns
  // ErrorKind::kUnsupported if the decimals are too long.
  static Result<DecimalValues> Make(const parquet::ColumnDescriptor& descr,
                                    bool unscaled);

  // Writes 8 bytes for each of `n` raw values. Returns true if all values fit, like a
  // CastFn. A BYTE_ARRAY with a length that no decimal has is an ErrorKind::kCorruptFile.
  Result<bool> Load(const uint8_t* raw, int64_t n, uint8_t* out,
                    Offender* offender) const;

 private:
  DecimalValues(parquet::Type::type physical, int width, DecimalScale scale,
                bool unscaled)
      : physical_(physical), width_(width), scale_(scale), unscaled_(unscaled) {}

  template <typename LoadFn>
  void LoadNarrow(int64_t n, uint8_t* out, const LoadFn& load) const;
  Result<UnscaledInteger> LoadWide(const uint8_t* raw) const;

  parquet::Type::type physical_;
  int width_;  // bytes of a raw value; for BYTE_ARRAY, of a parquet::ByteArray
  DecimalScale scale_;
  bool unscaled_;
};

}  // namespace fastload
