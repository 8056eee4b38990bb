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

template <typename T>
std::string ItemOf(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

ColumnSpec Spec(DType dtype, std::optional<std::string> fill = std::nullopt) {
  ColumnSpec spec;
  spec.name = "column";
  spec.dtype = dtype;
  spec.fill = std::move(fill);
  return spec;
}

// Reads every row (or the rows that `kept` leaves) in pieces of random size and stride.
template <typename T>
struct Rows {
  std::vector<T> values;
  std::vector<uint8_t> valid;
};

template <typename T>
Status ReadInPieces(FixedReader* reader, int64_t rows, std::mt19937* random,
                    bool with_skips, const Rows<T>& expected, bool compare = true) {
  int64_t row = 0;
  while (row < rows) {
    const int64_t most = (*random)() % 2 == 0 ? 40 : 3000;
    const auto piece = std::min<int64_t>(rows - row, 1 + (*random)() % most);
    if (with_skips && (*random)() % 3 == 0) {
      ARROW_RETURN_NOT_OK(reader->Skip(piece));
      row += piece;
      continue;
    }
    const auto step = (*random)() % 2 == 0 ? 1 : 3;
    std::vector<T> out(piece * step);
    std::vector<uint8_t> valid(piece, 7);
    ARROW_RETURN_NOT_OK(reader->Read(piece, reinterpret_cast<uint8_t*>(out.data()),
                                     step * static_cast<int64_t>(sizeof(T)),
                                     valid.data()));
    for (int64_t i = 0; compare && i < piece; ++i) {
      if (std::memcmp(&out[i * step], &expected.values[row + i], sizeof(T)) != 0) {
        return Status::Invalid("row ", row + i, " differs");
      }
      if (valid[i] != expected.valid[row + i]) {
        return Status::Invalid("valid of row ", row + i, " differs");
      }
    }
    row += piece;
  }
  return Status::OK();
}

enum class Nulls { kNone, kSome, kLong, kAll };

// Returns values of few or of many kinds, so that dictionaries are small or overflow.
template <typename ParquetType>
ColumnData<ParquetType> RandomColumn(int64_t rows, Nulls nulls, uint64_t kinds,
                                     std::mt19937_64* random) {
  using T = typename ColumnData<ParquetType>::Value;
  ColumnData<ParquetType> data;
  bool present = true;
  for (int64_t i = 0; i < rows; ++i) {
    if (nulls == Nulls::kSome) present = (*random)() % 5 != 0;
    if (nulls == Nulls::kLong && (*random)() % 300 == 0) present = !present;
    if (nulls == Nulls::kAll) present = false;
    data.valid.push_back(present);
    if (!present) continue;
    const uint64_t kind = (*random)() % kinds * 0x9E3779B97F4A7C15;
    T value;
    std::memcpy(&value, &kind, sizeof(T));
    if constexpr (sizeof(T) == 1) value = kind >> 63;
    data.values.push_back(value);
  }
  return data;
}

template <typename ParquetType>
void CheckLayouts(DType dtype, const std::vector<Encoding::type>& encodings,
                  bool dictionary) {
  using T = typename ColumnData<ParquetType>::Value;
  std::mt19937_64 random(1);
  std::mt19937 pieces(2);
  T fill{};
  std::memset(&fill, sizeof(T) == 1 ? 1 : 0x5A, sizeof(T));
  const ColumnSpec spec = Spec(dtype, ItemOf(fill));
  for (const Nulls nulls : {Nulls::kNone, Nulls::kSome, Nulls::kLong, Nulls::kAll}) {
    for (const Encoding::type encoding : encodings) {
      for (const int64_t dictionary_bytes :
           {int64_t{0}, int64_t{2000}, int64_t{1} << 20}) {
        if (dictionary_bytes > 0 && !dictionary) continue;
        for (const bool v2 : {false, true}) {
          const uint64_t kinds = random() % 2 == 0 ? 5 : 100'000;
          const auto data = RandomColumn<ParquetType>(9000, nulls, kinds, &random);
          ColumnLayout layout;
          layout.encoding = encoding;
          layout.dictionary = dictionary_bytes > 0;
          layout.dictionary_bytes = dictionary_bytes;
          layout.v2_pages = v2;
          layout.page_bytes = random() % 2 == 0 ? 700 : 9000;
          layout.codec = random() % 2 == 0 ? parquet::Compression::UNCOMPRESSED
                                           : parquet::Compression::SNAPPY;
          SCOPED_TRACE(testing::Describe(layout) + " nulls " +
                       std::to_string(static_cast<int>(nulls)));
          const auto bytes =
              WriteColumn<ParquetType>(LeafNode(ParquetType::type_num), data, layout,
                                       /*nested=*/random() % 2 == 0);
          Rows<T> expected;
          expected.valid = data.valid;
          size_t next = 0;
          for (const uint8_t present : data.valid) {
            expected.values.push_back(present != 0 ? data.values[next++] : fill);
          }
          for (const bool with_skips : {false, true}) {
            OpenedColumn file(bytes);
            auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
            const Status status =
                ReadInPieces<T>(reader.get(), 9000, &pieces, with_skips, expected);
            ASSERT_TRUE(status.ok()) << status.ToString();
          }
        }
      }
    }
  }
}

TEST(FixedReader, ReadsInt32) {
  CheckLayouts<parquet::Int32Type>(
      DType::kInt32,
      {Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT},
      true);
}

TEST(FixedReader, ReadsInt64) {
  CheckLayouts<parquet::Int64Type>(
      DType::kInt64,
      {Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT},
      true);
}

TEST(FixedReader, ReadsFloat) {
  CheckLayouts<parquet::FloatType>(DType::kFloat32,
                                   {Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT}, true);
}

TEST(FixedReader, ReadsDouble) {
  CheckLayouts<parquet::DoubleType>(DType::kFloat64,
                                    {Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT}, true);
}

TEST(FixedReader, ReadsBool) {
  CheckLayouts<parquet::BooleanType>(DType::kBool, {Encoding::PLAIN, Encoding::RLE},
                                     false);
}

// Writes a chunk of int64 values without nulls, with or without a dictionary.
std::shared_ptr<arrow::Buffer> Int64File(const std::vector<int64_t>& values,
                                         bool dictionary) {
  ColumnData<parquet::Int64Type> data;
  data.values = values;
  data.valid.assign(values.size(), 1);
  ColumnLayout layout;
  layout.dictionary = dictionary;
  return WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64), data, layout);
}

TEST(FixedReader, FailsOnlyOnRowsThatDoNotFit) {
  for (const bool dictionary : {false, true}) {
    OpenedColumn file(Int64File({1, 2, 300, 4}, dictionary));
    ColumnSpec spec = Spec(DType::kInt8);
    spec.cast = true;
    auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
    int8_t out[2] = {};
    ASSERT_TRUE(reader->Read(2, reinterpret_cast<uint8_t*>(out), 1, nullptr).ok());
    EXPECT_EQ(out[1], 2);
    const Status status = reader->Read(1, reinterpret_cast<uint8_t*>(out), 1, nullptr);
    EXPECT_EQ(KindOf(status), ErrorKind::kValue);
    EXPECT_EQ(status.message(), "Expected a value that fits int8, got 300");
  }
  OpenedColumn file(Int64File({1, 2, 300, 4}, true));
  ColumnSpec spec = Spec(DType::kInt8);
  spec.cast = true;
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  ASSERT_TRUE(reader->Skip(3).ok());
  int8_t out = 0;
  ASSERT_TRUE(reader->Read(1, reinterpret_cast<uint8_t*>(&out), 1, nullptr).ok());
  EXPECT_EQ(out, 4);
}

TEST(FixedReader, MultipliesChecked) {
  OpenedColumn file(Int64File({2, -3, int64_t{1} << 40}, false));
  ColumnSpec spec = Spec(DType::kInt64);
  spec.multipliers = {86'400'000};
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  int64_t out[2] = {};
  ASSERT_TRUE(reader->Read(2, reinterpret_cast<uint8_t*>(out), 8, nullptr).ok());
  EXPECT_EQ(out[0], 172'800'000);
  EXPECT_EQ(out[1], -259'200'000);
  const Status status = reader->Read(1, reinterpret_cast<uint8_t*>(out), 8, nullptr);
  EXPECT_EQ(KindOf(status), ErrorKind::kValue);
}

TEST(FixedReader, MultipliesByTheFilesOwn) {
  const auto bytes = Int64File({2, -3}, false);
  ColumnSpec spec = Spec(DType::kInt64);
  spec.leaves = {0, 0};
  spec.multipliers = {1, 1000};
  for (const int32_t number : {0, 1}) {
    OpenedColumn file(bytes);
    ChunkInput chunk = file.Chunk();
    chunk.file = number;
    auto reader = MakeFixedReader(std::move(chunk), &spec).ValueOrDie();
    int64_t out[2] = {};
    ASSERT_TRUE(reader->Read(2, reinterpret_cast<uint8_t*>(out), 8, nullptr).ok());
    EXPECT_EQ(out[1], number == 0 ? -3 : -3000);
  }
}

TEST(FixedReader, UnscaledDecimalsOfAnotherScale) {
  for (const bool dictionary : {false, true}) {
    ColumnData<parquet::Int64Type> data;
    data.values = {150, -7, int64_t{1} << 62};
    data.valid = {1, 1, 1};
    ColumnLayout layout;
    layout.dictionary = dictionary;
    OpenedColumn file(WriteColumn<parquet::Int64Type>(
        LeafNode(parquet::Type::INT64, parquet::LogicalType::Decimal(18, 2)), data,
        layout));
    ColumnSpec spec = Spec(DType::kInt64);
    spec.cast = true;
    spec.unscaled = true;
    spec.multipliers = {100};
    auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
    int64_t out[2] = {};
    ASSERT_TRUE(reader->Read(2, reinterpret_cast<uint8_t*>(out), 8, nullptr).ok());
    EXPECT_EQ(out[0], 15'000);
    EXPECT_EQ(out[1], -700);
    const Status status = reader->Read(1, reinterpret_cast<uint8_t*>(out), 8, nullptr);
    EXPECT_EQ(KindOf(status), ErrorKind::kValue);
  }
}

TEST(FixedReader, ExactFloatsRefuseToRound) {
  constexpr int64_t kMost = int64_t{1} << 53;
  OpenedColumn file(Int64File({kMost, -kMost, int64_t{1} << 62, kMost + 1}, false));
  ColumnSpec spec = Spec(DType::kFloat64);
  spec.cast = true;
  spec.exact = true;
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  double out[3] = {};
  ASSERT_TRUE(reader->Read(3, reinterpret_cast<uint8_t*>(out), 8, nullptr).ok());
  EXPECT_EQ(out[0], 0x1p53);
  EXPECT_EQ(out[1], -0x1p53);
  EXPECT_EQ(out[2], 0x1p62);
  const Status status = reader->Read(1, reinterpret_cast<uint8_t*>(out), 8, nullptr);
  EXPECT_EQ(KindOf(status), ErrorKind::kValue);
  EXPECT_EQ(status.message(),
            "Expected a value that fits float64 without rounding, got 9007199254740993");
}

TEST(FixedReader, NullWithoutFillIsAnError) {
  ColumnData<parquet::Int64Type> data{{1, 2}, {1, 0, 1}};
  OpenedColumn file(WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64), data,
                                                    ColumnLayout{}));
  const ColumnSpec spec = Spec(DType::kInt64);
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  int64_t out[3];
  const Status status = reader->Read(3, reinterpret_cast<uint8_t*>(out), 8, nullptr);
  EXPECT_EQ(KindOf(status), ErrorKind::kNullValue);
  EXPECT_EQ(status.message(),
            "Expected no null, got one (write fill= or valid=True for this column, or "
            "nulls=\"nan\" (for floats), \"zero\" or \"mask\" for all)");
}

TEST(FixedReader, ReadsTypeNull) {
  ColumnData<parquet::Int32Type> data{{}, {0, 0, 0}};
  OpenedColumn file(WriteColumn<parquet::Int32Type>(
      LeafNode(parquet::Type::INT32, parquet::LogicalType::Null()), data,
      ColumnLayout{}));
  const ColumnSpec spec = Spec(DType::kFloat64, ItemOf(1.5));
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  double out[3] = {};
  uint8_t valid[3] = {1, 1, 1};
  ASSERT_TRUE(reader->Read(3, reinterpret_cast<uint8_t*>(out), 8, valid).ok());
  EXPECT_EQ(out[2], 1.5);
  EXPECT_EQ(valid[2], 0);
}

TEST(FixedReader, MoreRowsThanThereAreIsAnError) {
  OpenedColumn file(Int64File({1, 2}, false));
  const ColumnSpec spec = Spec(DType::kInt64);
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  int64_t out[3];
  const Status status = reader->Read(3, reinterpret_cast<uint8_t*>(out), 8, nullptr);
  EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
}

TEST(FixedReader, SkippedPagesAreCountedButNotRead) {
  std::vector<int64_t> values(10'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  ColumnData<parquet::Int64Type> data{values, std::vector<uint8_t>(values.size(), 1)};
  ColumnLayout layout;
  layout.page_bytes = 1024;
  OpenedColumn file(
      WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64), data, layout));
  const ColumnSpec spec = Spec(DType::kInt64);
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  EXPECT_EQ(reader->page(), -1);
  ASSERT_TRUE(reader->Skip(9'000).ok());
  EXPECT_EQ(reader->page(), -1);
  int64_t out = 0;
  ASSERT_TRUE(reader->Read(1, reinterpret_cast<uint8_t*>(&out), 8, nullptr).ok());
  EXPECT_EQ(out, 9'000);
  EXPECT_GT(reader->page(), 30);
}

// With flipped bytes in the file, reading returns an error or values, and never crashes.
TEST(FixedReader, SurvivesDamage) {
  std::mt19937_64 random(3);
  std::mt19937 pieces(4);
  const int64_t zero = 0;
  for (int round = 0; round < 600; ++round) {
    const auto data = RandomColumn<parquet::Int64Type>(
        2000, round % 2 == 0 ? Nulls::kSome : Nulls::kNone, round % 3 == 0 ? 50 : 100'000,
        &random);
    ColumnLayout layout;
    layout.dictionary = round % 3 != 1;
    layout.dictionary_bytes = 4000;
    layout.encoding = round % 4 == 0 ? Encoding::DELTA_BINARY_PACKED : Encoding::PLAIN;
    layout.v2_pages = round % 5 < 2;
    layout.page_bytes = 1500;
    const auto bytes =
        WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64), data, layout);
    std::string damaged = bytes->ToString();
    const size_t chunk = damaged.size() * 4 / 5;  // the footer has checks of its own
    for (int i = 0; i < 1 + round % 7; ++i) {
      damaged[4 + random() % (chunk - 4)] = static_cast<char>(random());
    }
    OpenedColumn file(arrow::Buffer::FromString(std::move(damaged)));
    const ColumnSpec spec = Spec(DType::kInt64, ItemOf(zero));
    auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
    const Status status = ReadInPieces<int64_t>(reader.get(), 2000, &pieces,
                                                round % 2 == 0, {}, /*compare=*/false);
    if (!status.ok()) {
      EXPECT_FALSE(status.message().empty());
    }
  }
}

}  // namespace
}  // namespace fastload
