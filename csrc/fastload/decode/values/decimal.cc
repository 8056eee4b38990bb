#include "fastload/decode/values/decimal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "arrow/util/value_parsing.h"

namespace fastload {

namespace {

__extension__ using Uint128 = unsigned __int128;

// 5^27 is the largest power below 2^63.
constexpr auto kPowersOfFive = [] {
  std::array<uint64_t, 28> powers = {1};
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = 5 * powers[i - 1];
  return powers;
}();

// 2^exponent / power, rounded down, where the exponent makes the quotient 128 bits long.
struct Reciprocal {
  Uint128 quotient = 0;
  int exponent = 0;
};

constexpr auto kReciprocals = [] {
  std::array<Reciprocal, kPowersOfFive.size()> reciprocals;
  for (size_t i = 1; i < reciprocals.size(); ++i) {
    const int width = std::bit_width(kPowersOfFive[i]);
    Uint128 rest = Uint128{1} << (width - 1);
    for (int bit = 0; bit < 128; ++bit) {
      rest <<= 1;
      const bool fits = rest >= kPowersOfFive[i];
      reciprocals[i].quotient = reciprocals[i].quotient << 1 | (fits ? 1 : 0);
      if (fits) rest -= kPowersOfFive[i];
    }
    reciprocals[i].exponent = width - 1 + 128;
  }
  return reciprocals;
}();

// A normal double: 2^exponent.
double PowerOfTwo(int exponent) {
  constexpr int kBias = 1023;
  constexpr int kFractionBits = 52;
  return std::bit_cast<double>(static_cast<uint64_t>(kBias + exponent) << kFractionBits);
}

// Returns the double nearest to integer * 10^-scale, or nullopt in the few cases that a
// multiplication by the reciprocal does not decide. `integer` is not 0, and `scale` is an
// index of kReciprocals that is not 0.
std::optional<double> NearestByReciprocal(uint64_t integer, int scale) {
  const int shift = std::countl_zero(integer);
  const auto& [reciprocal, exponent] = kReciprocals[static_cast<size_t>(scale)];
  const Uint128 factor = integer << shift;
  const Uint128 low = factor * static_cast<uint64_t>(reciprocal);
  // The upper 128 of 192 bits. The exact product exceeds them by less than 2, because the
  // reciprocal is rounded down by less than 1, and `factor` is below 2^64.
  const Uint128 product = factor * static_cast<uint64_t>(reciprocal >> 64) + (low >> 64);
  const auto rest = static_cast<uint64_t>(product);
  if (rest == 0 || rest >= ~uint64_t{0} - 1) return std::nullopt;
  // At least 62 bits, so the last one is far below those that a double keeps. It stands
  // for the rest, which says that the value lies above one halfway between two doubles.
  const uint64_t leading = static_cast<uint64_t>(product >> 64) | 1;
  return static_cast<double>(leading) * PowerOfTwo(128 - exponent - shift - scale);
}

// Returns the double nearest to integer * 10^-scale. `integer` is not 0, and `scale` is
// an index of kPowersOfFive.
double Nearest(Uint128 integer, int scale) {
  if (scale == 0) return static_cast<double>(integer);
  const auto high = static_cast<uint64_t>(integer >> 64);
  if (high == 0) {
    const auto nearest = NearestByReciprocal(static_cast<uint64_t>(integer), scale);
    if (nearest.has_value()) return *nearest;
  }
  const int shift = high != 0 ? std::countl_zero(high)
                              : 64 + std::countl_zero(static_cast<uint64_t>(integer));
  integer <<= shift;
  const uint64_t divisor = kPowersOfFive[static_cast<size_t>(scale)];
  Uint128 quotient = integer / divisor;
  // The quotient exceeds 2^64, so its last bit is far below those that a double keeps.
  // Where a remainder is left, that bit says that the quotient lies above a value halfway
  // between two doubles.
  if (quotient * divisor != integer) quotient |= 1;
  // The product is a normal double, and exact.
  return static_cast<double>(quotient) * PowerOfTwo(-shift - scale);
}

// Loads `size` big-endian bytes, 1 to 8, below the bits of `above`.
uint64_t LoadLimb(const uint8_t* data, int size, uint64_t above) {
  if (size == 8) return static_cast<uint64_t>(LoadBigEndian<8>(data));
  for (int i = 0; i < size; ++i) above = above << 8 | data[i];
  return above;
}

}  // namespace

UnscaledInteger::UnscaledInteger(int64_t value) : negative_(value < 0) {
  limbs_[0] =
      negative_ ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
}

UnscaledInteger UnscaledInteger::FromBigEndian(const uint8_t* data, int size) {
  UnscaledInteger integer;
  integer.negative_ = (data[0] & 0x80) != 0;
  const uint64_t fill = integer.negative_ ? ~uint64_t{0} : 0;
  std::ranges::fill(integer.limbs_, fill);
  uint64_t* next = integer.limbs_;
  for (; size >= 8; size -= 8) *next++ = LoadLimb(data + size - 8, 8, fill);
  if (size > 0) *next = LoadLimb(data, size, fill);
  if (integer.negative_) {
    bool carry = true;
    for (uint64_t& limb : integer.limbs_) {
      limb = ~limb + (carry ? 1 : 0);
      carry = carry && limb == 0;
    }
  }
  return integer;
}

std::optional<int64_t> UnscaledInteger::ToInt64() const {
  for (int i = 1; i < kLimbs; ++i) {
    if (limbs_[i] != 0) return std::nullopt;
  }
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (limbs_[0] > kMost + (negative_ ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(negative_ ? ~limbs_[0] + 1 : limbs_[0]);
}

char* UnscaledInteger::WriteDigits(char* end) const {
  // Writes nine digits at a time, from the least significant end.
  constexpr uint64_t kChunk = 1'000'000'000;
  constexpr int kChunkDigits = 9;
  std::array<uint32_t, 2 * kLimbs> words;
  std::memcpy(words.data(), limbs_, sizeof(limbs_));
  char* begin = end;
  int top = static_cast<int>(words.size());
  while (true) {
    while (top > 0 && words[top - 1] == 0) --top;
    if (top == 0) break;
    uint64_t rest = 0;
    for (int i = top - 1; i >= 0; --i) {
      const uint64_t part = rest << 32 | words[i];
      words[i] = static_cast<uint32_t>(part / kChunk);
      rest = part % kChunk;
    }
    for (int i = 0; i < kChunkDigits; ++i) {
      *--begin = static_cast<char>('0' + rest % 10);
      rest /= 10;
    }
  }
  while (begin < end && *begin == '0') ++begin;
  if (begin == end) *--begin = '0';
  return begin;
}

double UnscaledInteger::ToDouble(int scale) const {
  if (limbs_[2] == 0 && limbs_[3] == 0 && scale >= 0 &&
      scale < static_cast<int>(kPowersOfFive.size())) {
    const Uint128 integer = static_cast<Uint128>(limbs_[1]) << 64 | limbs_[0];
    const double nearest = integer == 0 ? 0 : Nearest(integer, scale);
    return negative_ ? -nearest : nearest;
  }
  constexpr int kExponent = 16;
  std::array<char, kMostDigits + kExponent> text;
  char* const end = text.data() + kMostDigits;
  const char* const begin = WriteDigits(end);
  *end = 'e';
  const auto written = std::to_chars(end + 1, text.data() + text.size(), -scale);
  double magnitude = 0;
  // Arrow's parser, because not every standard library has std::from_chars for doubles.
  if (!arrow::internal::StringToFloat(begin, static_cast<size_t>(written.ptr - begin),
                                      '.', &magnitude)) {
    magnitude = scale > 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  return negative_ ? -magnitude : magnitude;
}

double DecimalScale::ApplyInexact(int64_t value) const {
  if (value == 0 || scale_ < 0 || scale_ >= static_cast<int>(kPowersOfFive.size())) {
    return UnscaledInteger(value).ToDouble(scale_);
  }
  const auto bits = static_cast<uint64_t>(value);
  const double nearest = Nearest(value < 0 ? ~bits + 1 : bits, scale_);
  return value < 0 ? -nearest : nearest;
}

double DecimalScale::Apply(const UnscaledInteger& integer) const {
  const auto narrow = integer.ToInt64();
  return narrow.has_value() ? Apply(*narrow) : integer.ToDouble(scale_);
}

std::string UnscaledInteger::ToString() const {
  std::array<char, kMostDigits> text;
  char* const end = text.data() + text.size();
  std::string digits(WriteDigits(end), end);
  if (negative_) digits.insert(digits.begin(), '-');
  return digits;
}

}  // namespace fastload
