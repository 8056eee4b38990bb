#include "fastload/decode/values/decimal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "arrow/util/decimal.h"

namespace fastload {
namespace {

TEST(Decimal, IsCorrectlyRounded) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    const int size = 1 + static_cast<int>(random() % kMaxDecimalBytes);
    uint8_t bytes[kMaxDecimalBytes];
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const int scale = static_cast<int>(random() % 40);
    const auto reference = *arrow::Decimal256::FromBigEndian(bytes, size);
    const std::string text = reference.ToIntegerString() + "e-" + std::to_string(scale);
    const UnscaledInteger integer = UnscaledInteger::FromBigEndian(bytes, size);
    const double value = integer.ToDouble(scale);
    ASSERT_EQ(value, std::strtod(text.c_str(), nullptr)) << text;
    if (size <= 8) {
      const auto narrow = integer.ToInt64();
      ASSERT_TRUE(narrow.has_value());
      ASSERT_EQ(std::to_string(*narrow), reference.ToIntegerString());
      ASSERT_EQ(UnscaledInteger(*narrow).ToDouble(scale), value);
    }
  }
}

// Values at and next to those halfway between two doubles, which round to even.
TEST(Decimal, RoundsHalfwayCasesToEven) {
  std::mt19937_64 random(3);
  const auto expect_nearest = [](const arrow::Decimal256& integer, int scale) {
    uint8_t bytes[kMaxDecimalBytes];
    integer.ToBytes(bytes);
    std::reverse(bytes, bytes + sizeof(bytes));
    const std::string text = integer.ToIntegerString() + "e-" + std::to_string(scale);
    ASSERT_EQ(UnscaledInteger::FromBigEndian(bytes, sizeof(bytes)).ToDouble(scale),
              std::strtod(text.c_str(), nullptr))
        << text;
  };
  for (int i = 0; i < 50'000; ++i) {
    // An odd integer of 54 bits is halfway, and so are its multiples by powers of two.
    const auto odd = static_cast<int64_t>(random() >> 11 | uint64_t{1} << 53 | 1);
    arrow::Decimal256 integer(odd);
    const int scale = static_cast<int>(random() % 30);
    // odd * 10^scale * 2^-shift is an integer for every shift up to the scale.
    const int shift = static_cast<int>(random() % static_cast<uint64_t>(scale + 1));
    for (int k = 0; k < scale; ++k) integer *= arrow::Decimal256(k < shift ? 5 : 10);
    if (scale == 0) integer <<= static_cast<uint32_t>(random() % 74);
    if (i % 2 == 0) integer *= arrow::Decimal256(-1);
    for (const int step : {-1, 0, 1}) {
      expect_nearest(integer + arrow::Decimal256(step), scale);
    }
  }
  for (int bits = 1; bits < 140; ++bits) {
    const arrow::Decimal256 power = arrow::Decimal256(1) << static_cast<uint32_t>(bits);
    for (int scale = 0; scale < 40; ++scale) {
      for (const int step : {-1, 0, 1}) {
        expect_nearest(power + arrow::Decimal256(step), scale);
        expect_nearest(arrow::Decimal256(-power) + arrow::Decimal256(step), scale);
      }
    }
  }
  EXPECT_FALSE(std::signbit(UnscaledInteger(0).ToDouble(0)));
}

TEST(Decimal, OfInt64IsThatOfAnySize) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200'000; ++i) {
    // All magnitudes, most often near 2^53, where doubles stop holding every integer.
    const int bits =
        i % 2 == 0 ? 9 + static_cast<int>(random() % 4) : static_cast<int>(random() % 64);
    const int64_t value = static_cast<int64_t>(random()) >> bits;
    const int scale = static_cast<int>(random() % 40);
    ASSERT_EQ(DecimalScale(scale).Apply(value), UnscaledInteger(value).ToDouble(scale))
        << value << "e-" << scale;
  }
  constexpr auto kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(DecimalScale(0).Apply(kLeast), -0x1p63);
  EXPECT_EQ(std::signbit(DecimalScale(2).Apply(int64_t{0})), false);
}

TEST(Decimal, HasDigits) {
  EXPECT_EQ(UnscaledInteger(0).ToString(), "0");
  EXPECT_EQ(UnscaledInteger(-1'000'000'000).ToString(), "-1000000000");
  std::mt19937_64 random(6);
  for (int i = 0; i < 1000; ++i) {
    uint8_t bytes[kMaxDecimalBytes];
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const int size = 1 + i % kMaxDecimalBytes;
    ASSERT_EQ(UnscaledInteger::FromBigEndian(bytes, size).ToString(),
              arrow::Decimal256::FromBigEndian(bytes, size)->ToIntegerString());
  }
}

TEST(Decimal, KnowsTheLimitsOfInt64) {
  const uint8_t least[9] = {0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(UnscaledInteger::FromBigEndian(least, 9).ToInt64(),
            std::numeric_limits<int64_t>::min());
  const uint8_t above[9] = {0, 0x80, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_FALSE(UnscaledInteger::FromBigEndian(above, 9).ToInt64().has_value());
  const uint8_t below[9] = {0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  EXPECT_FALSE(UnscaledInteger::FromBigEndian(below, 9).ToInt64().has_value());
}

}  // namespace
}  // namespace fastload
