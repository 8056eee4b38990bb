#include "fastload/decode/values/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "arrow/util/float16.h"
#include "column_file.h"
#include "fastload/base/half.h"
#include "fastload/decode/values/decimal.h"

namespace fastload {
namespace {

using testing::ColumnData;
using testing::ColumnLayout;
using testing::LeafNode;
using testing::OpenedColumn;
using testing::WriteColumn;

template <typename To, typename From>
bool Cast(Stored stored, DType dtype, From from, To* to, Offender* offender) {
  uint8_t raw[sizeof(From)];
  std::memcpy(raw, &from, sizeof(from));
  uint8_t out[sizeof(To)];
  const bool fits = FindCast(stored, dtype)(raw, 1, out, offender);
  std::memcpy(to, out, sizeof(out));
  return fits;
}

TEST(Cast, IntegersAreChecked) {
  Offender offender;
  int8_t small = 0;
  EXPECT_TRUE(Cast(Stored::kInt64, DType::kInt8, int64_t{-128}, &small, &offender));
  EXPECT_EQ(small, -128);
  EXPECT_FALSE(Cast(Stored::kInt64, DType::kInt8, int64_t{-129}, &small, &offender));
  EXPECT_EQ(offender.text, "-129");
  uint64_t wide = 0;
  EXPECT_FALSE(Cast(Stored::kInt32, DType::kUInt64, int32_t{-1}, &wide, &offender));
  EXPECT_TRUE(Cast(Stored::kUInt32, DType::kUInt64, int32_t{-1}, &wide, &offender));
  EXPECT_EQ(wide, 0xFFFFFFFFU);
  int64_t signed_wide = 0;
  EXPECT_FALSE(
      Cast(Stored::kUInt64, DType::kInt64, int64_t{-1}, &signed_wide, &offender));
  EXPECT_EQ(offender.text, "18446744073709551615");
}

TEST(Cast, FloatsToIntegersAreExact) {
  Offender offender;
  int64_t out = 0;
  EXPECT_TRUE(Cast(Stored::kFloat64, DType::kInt64, -0x1p63, &out, &offender));
  EXPECT_EQ(out, std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(Cast(Stored::kFloat64, DType::kInt64, -0.0, &out, &offender));
  EXPECT_FALSE(Cast(Stored::kFloat64, DType::kInt64, 0x1p63, &out, &offender));
  EXPECT_FALSE(Cast(Stored::kFloat64, DType::kInt64, 1.5, &out, &offender));
  EXPECT_EQ(offender.text, "1.5");
  EXPECT_FALSE(Cast(Stored::kFloat64, DType::kInt64, std::nan(""), &out, &offender));
  EXPECT_EQ(offender.text, "nan");
  uint64_t unsigned_out = 0;
  EXPECT_TRUE(Cast(Stored::kFloat64, DType::kUInt64, 0x1p63, &unsigned_out, &offender));
  EXPECT_EQ(unsigned_out, uint64_t{1} << 63);
  EXPECT_FALSE(Cast(Stored::kFloat64, DType::kUInt64, 0x1p64, &unsigned_out, &offender));
  EXPECT_FALSE(Cast(Stored::kFloat64, DType::kUInt64, -1.0, &unsigned_out, &offender));
  uint8_t byte = 0;
  EXPECT_TRUE(Cast(Stored::kFloat32, DType::kUInt8, 255.0F, &byte, &offender));
  EXPECT_FALSE(Cast(Stored::kFloat32, DType::kUInt8, 256.0F, &byte, &offender));
}

TEST(Cast, ExactFloatsOfIntegers) {
  Offender offender;
  double out = 0;
  const auto exact = [&](Stored stored, auto value) {
    return FindCast(stored, DType::kFloat64, /*exact=*/true)(
        reinterpret_cast<const uint8_t*>(&value), 1, reinterpret_cast<uint8_t*>(&out),
        &offender);
  };
  EXPECT_TRUE(exact(Stored::kInt64, std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(out, -0x1p63);
  EXPECT_FALSE(exact(Stored::kInt64, std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(offender.text, "9223372036854775807");
  EXPECT_TRUE(exact(Stored::kUInt64, uint64_t{1} << 63));
  EXPECT_FALSE(exact(Stored::kUInt64, std::numeric_limits<uint64_t>::max()));
  EXPECT_TRUE(exact(Stored::kInt32, std::numeric_limits<int32_t>::max()));
}

TEST(Half, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = FloatFromHalf(half);
    const float expected = arrow::util::Float16::FromBits(half).ToFloat();
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_GT(HalfFromFloat(value) & 0x7FFF, 0x7C00);
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(HalfFromFloat(value), half);
  }
}

TEST(Half, RoundsAsArrow) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300'000; ++i) {
    // Exponents near those of a half, subnormals included.
    const auto exponent = static_cast<int>(random() % 48) - 30;
    const auto fraction = static_cast<double>(random() >> 11) * 0x1p-53;
    const double value = std::ldexp(1 + fraction, exponent) * (i % 2 == 0 ? 1 : -1);
    const auto single = static_cast<float>(value);
    ASSERT_EQ(HalfFromFloat(single), arrow::util::Float16::FromFloat(single).bits());
    ASSERT_EQ(HalfFromFloat(RoundToOdd(value)),
              arrow::util::Float16::FromDouble(value).bits())
        << value;
  }
}

TEST(Half, RoundsOnce) {
  // The value is above a tie by less than a float resolves, so rounding to float first
  // would lose the difference.
  const double above_tie = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(BFloatFromFloat(RoundToOdd(above_tie)), 0x3F81);
  EXPECT_EQ(BFloatFromFloat(static_cast<float>(above_tie)), 0x3F80);
  const int64_t integer = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  EXPECT_EQ(BFloatFromFloat(RoundToOdd(RoundToOdd(integer))), 0x5E81);
  EXPECT_EQ(BFloatFromFloat(RoundToOdd(RoundToOdd(-integer))), 0xDE81);
}

// Reads a whole chunk without nulls.
template <typename T, typename ParquetType>
Result<std::vector<T>> ReadAll(const parquet::schema::NodePtr& leaf,
                               std::vector<typename ParquetType::c_type> values,
                               const ColumnSpec& spec, bool dictionary,
                               parquet::Encoding::type encoding) {
  const size_t rows = values.size();
  ColumnData<ParquetType> data{std::move(values), std::vector<uint8_t>(rows, 1)};
  ColumnLayout layout;
  layout.dictionary = dictionary;
  layout.encoding = encoding;
  OpenedColumn file(WriteColumn<ParquetType>(leaf, data, layout));
  ARROW_ASSIGN_OR_RAISE(auto reader, MakeFixedReader(file.Chunk(), &spec));
  std::vector<T> out(rows);
  ARROW_RETURN_NOT_OK(reader->Read(static_cast<int64_t>(rows),
                                   reinterpret_cast<uint8_t*>(out.data()), sizeof(T),
                                   nullptr));
  return out;
}

ColumnSpec Spec(DType dtype, bool cast = false, bool unscaled = false) {
  ColumnSpec spec;
  spec.dtype = dtype;
  spec.cast = cast;
  spec.unscaled = unscaled;
  return spec;
}

constexpr auto kPlain = parquet::Encoding::PLAIN;

TEST(FixedReaderTypes, TruncatesToTheLogicalWidth) {
  for (const bool dictionary : {false, true}) {
    const auto signed_leaf =
        LeafNode(parquet::Type::INT32, parquet::LogicalType::Int(8, true));
    const auto out = ReadAll<int8_t, parquet::Int32Type>(
        signed_leaf, {300, -1}, Spec(DType::kInt8), dictionary, kPlain);
    EXPECT_EQ(*out, (std::vector<int8_t>{44, -1}));
    const auto wide = ReadAll<int64_t, parquet::Int32Type>(
        LeafNode(parquet::Type::INT32, parquet::LogicalType::Int(32, false)), {-1, 7},
        Spec(DType::kInt64), dictionary, kPlain);
    EXPECT_EQ(*wide, (std::vector<int64_t>{0xFFFFFFFF, 7}));
  }
}

TEST(FixedReaderTypes, ReadsDecimalsOfEveryPhysicalType) {
  const auto logical = parquet::LogicalType::Decimal(9, 2);
  const uint8_t first[4] = {0xFF, 0xFF, 0xFF, 0x85};  // -123
  const uint8_t second[4] = {0, 0, 0x30, 0x39};       // 12345
  const std::vector<double> expected = {-1.23, 123.45};
  const std::vector<int64_t> unscaled = {-123, 12345};
  for (const bool dictionary : {false, true}) {
    const auto check = [&]<typename Type>(Type, int length,
                                          std::vector<typename Type::c_type> values,
                                          parquet::Encoding::type encoding) {
      const auto leaf = LeafNode(Type::type_num, logical, length);
      const auto scaled = ReadAll<double, Type>(leaf, values, Spec(DType::kFloat64),
                                                dictionary, encoding);
      ASSERT_TRUE(scaled.ok()) << scaled.status().ToString();
      EXPECT_EQ(*scaled, expected);
      const auto integers = ReadAll<int64_t, Type>(
          leaf, values, Spec(DType::kInt64, true, true), dictionary, encoding);
      EXPECT_EQ(*integers, unscaled);
      const auto small = ReadAll<int8_t, Type>(
          leaf, values, Spec(DType::kInt8, true, true), dictionary, encoding);
      EXPECT_EQ(KindOf(small.status()), ErrorKind::kValue);
      EXPECT_EQ(small.status().message(), "Expected a value that fits int8, got 12345");
    };
    check(parquet::Int32Type{}, -1, {-123, 12345}, kPlain);
    check(parquet::Int64Type{}, -1, {-123, 12345}, kPlain);
    const std::vector<parquet::FixedLenByteArray> fixed = {
        parquet::FixedLenByteArray(first), parquet::FixedLenByteArray(second)};
    const std::vector<parquet::ByteArray> bytes = {parquet::ByteArray(4, first),
                                                   parquet::ByteArray(4, second)};
    for (const auto encoding : {kPlain, parquet::Encoding::BYTE_STREAM_SPLIT,
                                parquet::Encoding::DELTA_BYTE_ARRAY}) {
      check(parquet::FLBAType{}, 4, fixed, encoding);
    }
    for (const auto encoding : {kPlain, parquet::Encoding::DELTA_LENGTH_BYTE_ARRAY,
                                parquet::Encoding::DELTA_BYTE_ARRAY}) {
      check(parquet::ByteArrayType{}, -1, bytes, encoding);
    }
  }
}

TEST(FixedReaderTypes, ReadsDecimalsOfEveryLength) {
  std::mt19937_64 random(7);
  for (int length = 1; length <= 17; ++length) {
    std::string bytes(static_cast<size_t>(length) * 500, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    std::vector<parquet::FixedLenByteArray> fixed;
    std::vector<parquet::ByteArray> varying;
    std::vector<double> expected;
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(length)) {
      const auto* value = reinterpret_cast<const uint8_t*>(bytes.data()) + at;
      fixed.emplace_back(value);
      varying.emplace_back(static_cast<uint32_t>(length), value);
      expected.push_back(UnscaledInteger::FromBigEndian(value, length).ToDouble(1));
    }
    const auto logical = parquet::LogicalType::Decimal(2, 1);
    const auto spec = Spec(DType::kFloat64);
    EXPECT_EQ(*(ReadAll<double, parquet::FLBAType>(
                  LeafNode(parquet::Type::FIXED_LEN_BYTE_ARRAY, logical, length), fixed,
                  spec, false, kPlain)),
              expected);
    EXPECT_EQ(
        *(ReadAll<double, parquet::ByteArrayType>(
            LeafNode(parquet::Type::BYTE_ARRAY, logical), varying, spec, false, kPlain)),
        expected);
  }
}

TEST(FixedReaderTypes, ReadsInt96AsNanoseconds) {
  parquet::Int96 time;
  time.value[0] = 123;
  time.value[1] = 0;
  time.value[2] = 2440589;  // the second day of 1970, as a Julian day
  parquet::Int96 none = time;
  none.value[2] = 0;  // Arrow reads 0, whatever the nanoseconds are
  const auto out = ReadAll<int64_t, parquet::Int96Type>(
      LeafNode(parquet::Type::INT96), {time, none}, Spec(DType::kInt64), false, kPlain);
  EXPECT_EQ(*out, (std::vector<int64_t>{86'400'000'000'123, 0}));
  time.value[2] = 5373484;  // 9999-12-31
  const auto far = ReadAll<int64_t, parquet::Int96Type>(
      LeafNode(parquet::Type::INT96), {time}, Spec(DType::kInt64), false, kPlain);
  EXPECT_EQ(KindOf(far.status()), ErrorKind::kValue);
  EXPECT_NE(far.status().message().find("got 9999-12-31T00:00:00.000000123"),
            std::string::npos);
}

TEST(FixedReaderTypes, ReadsFloat16) {
  const uint8_t one_and_a_half[2] = {0x00, 0x3E};
  const auto leaf =
      LeafNode(parquet::Type::FIXED_LEN_BYTE_ARRAY, parquet::LogicalType::Float16(), 2);
  for (const bool dictionary : {false, true}) {
    const auto same = ReadAll<uint16_t, parquet::FLBAType>(
        leaf, {parquet::FixedLenByteArray(one_and_a_half)}, Spec(DType::kFloat16),
        dictionary, kPlain);
    EXPECT_EQ(*same, std::vector<uint16_t>{0x3E00});
    const auto wide = ReadAll<float, parquet::FLBAType>(
        leaf, {parquet::FixedLenByteArray(one_and_a_half)}, Spec(DType::kFloat32, true),
        dictionary, kPlain);
    EXPECT_EQ(*wide, std::vector<float>{1.5F});
  }
}

}  // namespace
}  // namespace fastload
