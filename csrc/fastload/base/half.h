// float16 (IEEE 754 binary16) and bfloat16 as bits; conversions round to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fastload {

inline float FloatFromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t fraction = half & 0x3FF;
  if (exponent == 0) {
    // Subnormal: the fraction counts units of 2^-24.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

inline uint16_t HalfFromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;   // NaN
  if (magnitude >= 0x47800000) return sign | 0x7C00;  // 65536 and above
  if (magnitude < 0x38800000) {
    // Below 2^-14: one unit in the last place of 0.5F is 2^-24, which is also the unit of
    // a subnormal half, so the addition does the rounding.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(sum) - 0x3F000000);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude - (112U << 23) + 0xFFF + odd) >> 13);
}

inline uint16_t BFloatFromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    // A NaN stays a NaN when its fraction is cut.
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Converts to float by rounding to odd, so that a second rounding to half the width gives
// the result of one rounding from double (Boldo and Melquiond, "When double rounding is
// odd").
inline float RoundToOdd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

// Converts to double by rounding to odd, so that a second rounding gives the result of
// one rounding from the integer.
inline double RoundToOdd(uint64_t value) {
  if (value >> 53 == 0) return static_cast<double>(value);
  const uint64_t rest = value & 0xFFF;
  return static_cast<double>((value - rest) | (rest != 0 ? 0x1000 : 0));
}

inline double RoundToOdd(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value < 0 ? -RoundToOdd(~bits + 1) : RoundToOdd(bits);
}

}  // namespace fastload
