// Casts from raw values, as PLAIN stores values, to elements of a tensor, one by one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fastload/decode/values/stored.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Returns the name of a dtype: "int8", "bfloat16", ...
std::string_view NameOf(DType dtype);

// The first value that does not fit.
struct Offender {
  int64_t index = 0;
  std::string text;  // the value as people write it
};

// A function that casts `n` raw values, and returns true if all values fit. A value that
// does not fit becomes its low bits.
using CastFn = bool (*)(const uint8_t* raw, int64_t n, uint8_t* out, Offender* offender);

// Returns the cast from a stored type other than kDecimal. With `exact`, an integer that
// must be rounded does not fit.
CastFn FindCast(Stored stored, DType dtype, bool exact = false);

// Returns the cast from kInt96 to int64, in units of `nanoseconds`: 1, 1000, 1'000'000 or
// 1'000'000'000. A value between two units does not fit. Null: another number.
CastFn FindInt96Cast(int64_t nanoseconds);

}  // namespace fastload
