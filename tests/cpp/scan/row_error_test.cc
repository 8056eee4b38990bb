// Tests that the first failing row, a null or a value that does not fit the dtype, is
// named exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "column_file.h"
#include "fastload/decode/chunk_reader.h"

namespace fastload {
namespace {

using parquet::Encoding;
using testing::ColumnData;
using testing::ColumnLayout;
using testing::LeafNode;
using testing::OpenedColumn;
using testing::WriteColumn;

struct Case {
  ColumnData<parquet::Int64Type> data;
  // For each start row: the row that fails first if rows are read from the start row on.
  std::vector<int64_t> failing;
  std::vector<int64_t> value;  // value of the failing row
};

// One row in `rare` does not fit int8.
Case RandomCase(int64_t rows, uint64_t rare, bool nulls, std::mt19937_64* random) {
  Case made;
  std::vector<int64_t> values;
  for (int64_t row = 0; row < rows; ++row) {
    const bool present = !nulls || (*random)() % 3 != 0;
    const auto small = static_cast<int64_t>((*random)() % 128);
    const int64_t value = (*random)() % rare == 0 ? 128 + small : small;
    made.data.valid.push_back(present);
    values.push_back(value);
    if (present) made.data.values.push_back(value);
  }
  made.failing.resize(static_cast<size_t>(rows), rows);
  made.value.resize(static_cast<size_t>(rows));
  for (auto row = static_cast<size_t>(rows); row-- > 0;) {
    const bool fails = made.data.valid[row] != 0 && values[row] > 127;
    const bool last = row + 1 == static_cast<size_t>(rows);
    made.failing[row] = fails  ? static_cast<int64_t>(row)
                        : last ? rows
                               : made.failing[row + 1];
    made.value[row] = fails ? values[row] : last ? 0 : made.value[row + 1];
  }
  return made;
}

ColumnSpec Int8Spec() {
  ColumnSpec spec;
  spec.dtype = DType::kInt8;
  spec.cast = true;
  spec.fill = std::string(1, '\0');
  return spec;
}

// Reads in pieces from `start` on, until a read fails.
Status ReadFrom(const std::shared_ptr<arrow::Buffer>& bytes, const ColumnSpec& spec,
                int64_t start, int64_t rows, int64_t stride, std::mt19937_64* random) {
  OpenedColumn file(bytes);
  ARROW_ASSIGN_OR_RAISE(auto reader, MakeFixedReader(file.Chunk(), &spec));
  ARROW_RETURN_NOT_OK(reader->Skip(start));
  const int64_t item = ItemSize(spec.dtype);
  for (int64_t row = start; row < rows;) {
    const auto piece =
        std::min<int64_t>(rows - row, 1 + static_cast<int64_t>((*random)() % 3000));
    std::vector<uint8_t> out(static_cast<size_t>(piece * item * stride));
    ARROW_RETURN_NOT_OK(reader->Read(piece, out.data(), item * stride, nullptr));
    row += piece;
  }
  return Status::OK();
}

TEST(RowError, NamesTheFirstValueThatDoesNotFit) {
  std::mt19937_64 random(1);
  constexpr int64_t kRows = 5000;
  const ColumnSpec spec = Int8Spec();
  for (int round = 0; round < 120; ++round) {
    const Case made =
        RandomCase(kRows, round % 2 == 0 ? 2000 : 50, round % 3 != 0, &random);
    ColumnLayout layout;
    layout.encoding = round % 5 == 0 ? Encoding::DELTA_BINARY_PACKED : Encoding::PLAIN;
    layout.dictionary = round % 4 < 2;
    layout.dictionary_bytes = round % 8 == 0 ? 300 : 1 << 20;
    layout.page_bytes = round % 7 == 0 ? 500 : 1 << 20;
    const auto bytes = WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64),
                                                       made.data, layout);
    const auto start = static_cast<int64_t>(random() % kRows);
    const int64_t stride = round % 2 == 0 ? 1 : 3;
    const Status status = ReadFrom(bytes, spec, start, kRows, stride, &random);
    const auto at = static_cast<size_t>(start);
    if (made.failing[at] == kRows) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      continue;
    }
    EXPECT_EQ(KindOf(status), ErrorKind::kValue);
    ASSERT_EQ(RowOf(status), made.failing[at]) << Describe(layout);
    EXPECT_EQ(status.message(),
              "Expected a value that fits int8, got " + std::to_string(made.value[at]));
  }
}

TEST(RowError, NamesTheFirstNull) {
  std::mt19937_64 random(2);
  for (const int64_t null : {0, 1, 700, 2047, 2999}) {
    ColumnData<parquet::Int64Type> data{std::vector<int64_t>(3000, 7),
                                        std::vector<uint8_t>(3000, 1)};
    for (int64_t row = null; row < 3000; row += 1 + static_cast<int64_t>(random() % 3)) {
      data.valid[static_cast<size_t>(row)] = 0;
      data.values.pop_back();
    }
    for (const bool dictionary : {false, true}) {
      ColumnLayout layout;
      layout.dictionary = dictionary;
      layout.page_bytes = 900;
      const auto bytes =
          WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64), data, layout);
      ColumnSpec spec;
      const Status status = ReadFrom(bytes, spec, 0, 3000, 1, &random);
      EXPECT_EQ(KindOf(status), ErrorKind::kNullValue);
      EXPECT_EQ(RowOf(status), null);
      OpenedColumn file(bytes);
      auto reader = *MakeFixedReader(file.Chunk(), &spec);
      std::vector<uint16_t> codes(3000);
      if (dictionary) {
        auto* const out = reinterpret_cast<uint8_t*>(codes.data());
        EXPECT_EQ(RowOf(reader->ReadCodes(3000, {2, 1, 0}, out, nullptr).status()), null);
      }
    }
  }
}

TEST(RowError, NamesTheFirstNullOfBytes) {
  ColumnData<parquet::ByteArrayType> data;
  data.valid.assign(2000, 1);
  data.valid[1500] = 0;
  data.values.assign(1999, parquet::ByteArray("x"));
  OpenedColumn file(WriteColumn<parquet::ByteArrayType>(
      LeafNode(parquet::Type::BYTE_ARRAY), data, ColumnLayout{}));
  ColumnSpec spec;
  spec.bytes = true;
  auto reader = *MakeBytesReader(file.Chunk(), &spec);
  std::vector<ByteView> views(2000);
  ByteArena arena;
  ASSERT_TRUE(reader->Read(1000, views.data(), nullptr, &arena).ok());
  const Status status = reader->Read(1000, views.data(), nullptr, &arena);
  EXPECT_EQ(KindOf(status), ErrorKind::kNullValue);
  EXPECT_EQ(RowOf(status), 1500);
}

// Values take three steps: to 64 bits, by a factor, to the dtype. Any step may fail, and
// a later step may fail at an earlier row.
TEST(RowError, NamesTheFirstOfAllSteps) {
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  const auto read = [](std::vector<int64_t> values, bool is_signed) {
    ColumnData<parquet::Int64Type> data{values, std::vector<uint8_t>(values.size(), 1)};
    OpenedColumn file(WriteColumn<parquet::Int64Type>(
        LeafNode(parquet::Type::INT64, parquet::LogicalType::Int(64, is_signed)), data,
        ColumnLayout{}));
    ColumnSpec spec = Int8Spec();
    spec.multipliers = {10};
    auto reader = *MakeFixedReader(file.Chunk(), &spec);
    std::vector<uint8_t> out(values.size());
    return reader->Read(static_cast<int64_t>(values.size()), out.data(), 1, nullptr);
  };
  const std::string message =
      "Expected a value that fits int8 after it is multiplied by 10, got ";
  std::vector<int64_t> values(600, 12);
  values[300] = -1;      // above int64 where the column is unsigned
  values[290] = kLarge;  // times 10 above int64
  values[280] = 13;      // times 10 above int8
  Status status = read(values, false);
  EXPECT_EQ(RowOf(status), 280);
  EXPECT_EQ(status.message(), message + "13");
  values[280] = 12;
  status = read(values, false);
  EXPECT_EQ(RowOf(status), 290);
  EXPECT_EQ(status.message(), message + std::to_string(kLarge));
  values[290] = 12;
  status = read(values, false);
  EXPECT_EQ(RowOf(status), 300);
  EXPECT_EQ(status.message(), message + "18446744073709551615");
  EXPECT_TRUE(read(values, true).ok());
}

TEST(RowError, NamesADecimal) {
  std::string bytes(16, '\0');
  bytes[0] = '\x40';  // 2^126
  const std::string one = std::string(15, '\0') + '\1';
  const auto* large = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto* small = reinterpret_cast<const uint8_t*>(one.data());
  ColumnData<parquet::FLBAType> data{{}, std::vector<uint8_t>(900, 1)};
  data.values.assign(900, parquet::FixedLenByteArray(small));
  data.values[777] = parquet::FixedLenByteArray(large);
  OpenedColumn file(
      WriteColumn<parquet::FLBAType>(LeafNode(parquet::Type::FIXED_LEN_BYTE_ARRAY,
                                              parquet::LogicalType::Decimal(38, 2), 16),
                                     data, ColumnLayout{}));
  ColumnSpec spec;
  spec.cast = true;
  spec.unscaled = true;
  auto reader = *MakeFixedReader(file.Chunk(), &spec);
  std::vector<uint8_t> out(7200);
  const Status status = reader->Read(900, out.data(), 8, nullptr);
  EXPECT_EQ(RowOf(status), 777);
  EXPECT_EQ(status.message(),
            "Expected a value that fits int64, got "
            "85070591730234615865843651857942052864");
}

}  // namespace
}  // namespace fastload
