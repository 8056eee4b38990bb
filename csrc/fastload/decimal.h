// Parquet decimals: a two's complement integer and a scale.
#pragma once

#include <cstdint>
#include <optional>

namespace fastload {

// Longest unscaled integer that is read: 76 digits, the most of Arrow's decimal256.
constexpr int kMaxDecimalBytes = 32;

// An unscaled integer as sign and magnitude.
class UnscaledInteger {
 public:
  explicit UnscaledInteger(int64_t value);

  // `size` big-endian bytes, 1 to kMaxDecimalBytes.
  static UnscaledInteger FromBigEndian(const uint8_t* data, int size);

  // nullopt if it does not fit.
  std::optional<int64_t> ToInt64() const;

  // The double nearest to integer * 10^-scale.
  double ToDouble(int scale) const;

 private:
  UnscaledInteger() = default;
  double ToDoubleByText(int scale) const;

  static constexpr int kLimbs = kMaxDecimalBytes / 8;
  uint64_t limbs_[kLimbs] = {};  // of the magnitude, least significant first
  bool negative_ = false;
};

}  // namespace fastload
