// Parquet decimals: a two's complement integer and a scale.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace fastload {

// The longest unscaled integer that is read: 76 digits, the most of Arrow's decimal256.
constexpr int kMaxDecimalBytes = 32;

// Loads a big-endian integer of 1 to 8 bytes.
template <int kBytes>
int64_t LoadBigEndian(const uint8_t* data) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, kBytes);
  if constexpr (std::endian::native == std::endian::little)
    bits = __builtin_bswap64(bits);
  return static_cast<int64_t>(bits) >> (64 - 8 * kBytes);
}

// An unscaled integer as sign and magnitude.
class UnscaledInteger {
 public:
  explicit UnscaledInteger(int64_t value);

  // Makes an integer from `size` big-endian bytes, 1 to kMaxDecimalBytes.
  static UnscaledInteger FromBigEndian(const uint8_t* data, int size);

  // Returns the integer, or nullopt if the integer does not fit.
  std::optional<int64_t> ToInt64() const;

  // Returns the double nearest to integer * 10^-scale, for integers of any size.
  double ToDouble(int scale) const;

  // Returns the integer in decimal digits.
  std::string ToString() const;

 private:
  // 256 bits have 78 digits, which are written nine at a time
  static constexpr int kMostDigits = 81;

  UnscaledInteger() = default;
  // Writes the magnitude's digits, at most kMostDigits, before `end`. Returns the first
  // digit.
  char* WriteDigits(char* end) const;

  static constexpr int kLimbs = kMaxDecimalBytes / 8;
  uint64_t limbs_[kLimbs] = {};  // words of the magnitude, least significant first
  bool negative_ = false;
};

// A conversion of decimals of one scale to the nearest doubles.
class DecimalScale {
 public:
  explicit DecimalScale(int scale)
      : scale_(scale), exact_(scale >= 0 && scale < kExactPowers) {}

  // Returns value * 10^-scale.
  double Apply(int64_t value) const {
    if (exact_ && value >= -kExactIntegers && value <= kExactIntegers) {
      // Both operands are exact, so the one rounding of the division gives the nearest
      // double.
      return static_cast<double>(value) / kPowersOfTen[static_cast<size_t>(scale_)];
    }
    return ApplyInexact(value);
  }
  double Apply(const UnscaledInteger& integer) const;

 private:
  double ApplyInexact(int64_t value) const;

  static constexpr int64_t kExactIntegers = int64_t{1} << 53;
  // 10^22 is the largest power that a double holds exactly
  static constexpr int kExactPowers = 23;
  static constexpr std::array<double, kExactPowers> kPowersOfTen = {
      1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

  int scale_;
  bool exact_;
};

}  // namespace fastload
