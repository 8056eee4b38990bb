// Raw values, as PLAIN lays them out, to elements of a tensor, one by one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fastload/decode/values/stored.h"
#include "fastload/plan/columns.h"

namespace fastload {

// "int8", "bfloat16", ...
std::string_view NameOf(DType dtype);

// The first of some values that does not fit.
struct Offender {
  int64_t index = 0;
  std::string text;  // as people write it
};

// Casts `n` raw values; whether all fit. What an offender becomes is its low bits.
using CastFn = bool (*)(const uint8_t* raw, int64_t n, uint8_t* out, Offender* offender);

// The cast of a stored type other than kDecimal. With `exact` an integer that would be
// rounded does not fit.
CastFn FindCast(Stored stored, DType dtype, bool exact = false);

}  // namespace fastload
