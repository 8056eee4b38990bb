#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
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

constexpr int64_t kRows = 4000;
constexpr int kFixedSize = 7;

struct Strings {
  std::vector<std::string> rows;
  std::vector<uint8_t> valid;
};

// Returns strings of lengths 0 to 40, or of kFixedSize; `null_share` is from 0 to 1.
Strings RandomStrings(bool fixed, double null_share, uint32_t kinds,
                      std::mt19937* random) {
  Strings strings;
  for (int64_t row = 0; row < kRows; ++row) {
    const bool present = (*random)() % 1000 >= null_share * 1000;
    strings.valid.push_back(present);
    const uint32_t kind = (*random)() % kinds;
    std::string value = std::to_string(kind * 7919);
    value.resize(fixed ? kFixedSize : kind % 41, 'x');
    strings.rows.push_back(present ? value : "");
  }
  return strings;
}

template <typename ParquetType>
std::shared_ptr<arrow::Buffer> Write(const Strings& strings, const ColumnLayout& layout) {
  ColumnData<ParquetType> data;
  data.valid = strings.valid;
  for (size_t row = 0; row < strings.rows.size(); ++row) {
    if (strings.valid[row] == 0) continue;
    const auto* bytes = reinterpret_cast<const uint8_t*>(strings.rows[row].data());
    if constexpr (std::is_same_v<ParquetType, parquet::ByteArrayType>) {
      data.values.emplace_back(static_cast<uint32_t>(strings.rows[row].size()), bytes);
    } else {
      data.values.emplace_back(bytes);
    }
  }
  return WriteColumn<ParquetType>(
      LeafNode(ParquetType::type_num, parquet::LogicalType::None(), kFixedSize), data,
      layout);
}

// Keeps all views to the end, so that sanitizers find an owner that is released too
// early.
Status ReadInPieces(BytesReader* reader, std::mt19937* random, bool with_skips,
                    std::vector<ByteView>* views, std::vector<uint8_t>* valid,
                    ByteArena* arena) {
  views->resize(kRows);
  valid->assign(kRows, 7);
  for (int64_t row = 0; row < kRows;) {
    const int64_t piece =
        std::min<int64_t>(kRows - row, 1 + (*random)() % ((*random)() % 2 ? 40 : 2500));
    if (with_skips && (*random)() % 3 == 0) {
      ARROW_RETURN_NOT_OK(reader->Skip(piece));
    } else {
      ARROW_RETURN_NOT_OK(
          reader->Read(piece, views->data() + row, valid->data() + row, arena));
    }
    row += piece;
  }
  return Status::OK();
}

template <typename ParquetType>
void CheckLayouts(const std::vector<Encoding::type>& encodings) {
  constexpr bool kFixed = std::is_same_v<ParquetType, parquet::FLBAType>;
  std::mt19937 random(1);
  ColumnSpec spec;
  spec.dtype = DType::kUInt8;
  spec.bytes = true;
  spec.fill = "(null)";
  for (const double null_share : {0.0, 0.2, 0.999, 1.0}) {
    for (const Encoding::type encoding : encodings) {
      for (const int64_t dictionary_bytes : {0, 800, 1 << 20}) {
        for (const bool v2 : {false, true}) {
          const auto strings =
              RandomStrings(kFixed, null_share, random() % 2 ? 9 : 5000, &random);
          ColumnLayout layout;
          layout.encoding = encoding;
          layout.dictionary = dictionary_bytes > 0;
          layout.dictionary_bytes = dictionary_bytes;
          layout.v2_pages = v2;
          layout.page_bytes = random() % 2 ? 900 : 20'000;
          layout.codec = random() % 2 ? parquet::Compression::ZSTD
                                      : parquet::Compression::UNCOMPRESSED;
          SCOPED_TRACE(testing::Describe(layout) + " nulls " +
                       std::to_string(null_share));
          OpenedColumn file(Write<ParquetType>(strings, layout));
          std::vector<ByteView> views;
          std::vector<uint8_t> valid;
          ByteArena arena;
          auto reader = MakeBytesReader(file.Chunk(), &spec).ValueOrDie();
          const Status status = ReadInPieces(reader.get(), &random, random() % 2 == 0,
                                             &views, &valid, &arena);
          ASSERT_TRUE(status.ok()) << status.ToString();
          reader.reset();
          for (int64_t row = 0; row < kRows; ++row) {
            if (valid[row] == 7) continue;  // skipped
            ASSERT_EQ(valid[row], strings.valid[row]) << row;
            const std::string_view got(reinterpret_cast<const char*>(views[row].data),
                                       static_cast<size_t>(views[row].size));
            ASSERT_EQ(got, valid[row] != 0 ? strings.rows[row] : *spec.fill) << row;
          }
        }
      }
    }
  }
}

TEST(BytesReader, ReadsByteArrays) {
  CheckLayouts<parquet::ByteArrayType>(
      {Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY});
}

TEST(BytesReader, ReadsFixedLengthByteArrays) {
  CheckLayouts<parquet::FLBAType>(
      {Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_BYTE_ARRAY});
}

TEST(BytesReader, NullWithoutFillIsAnError) {
  std::mt19937 random(3);
  OpenedColumn file(Write<parquet::ByteArrayType>(RandomStrings(false, 0.5, 9, &random),
                                                  ColumnLayout{}));
  ColumnSpec spec;
  spec.bytes = true;
  auto reader = MakeBytesReader(file.Chunk(), &spec).ValueOrDie();
  std::vector<ByteView> views(100);
  ByteArena arena;
  EXPECT_EQ(KindOf(reader->Read(100, views.data(), nullptr, &arena)),
            ErrorKind::kNullValue);
}

// With flipped bytes in the file, reading returns an error or values, and never crashes.
TEST(BytesReader, SurvivesDamage) {
  std::mt19937 random(4);
  const std::vector<Encoding::type> encodings = {
      Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY};
  ColumnSpec spec;
  spec.bytes = true;
  spec.fill = "";
  uint64_t sum = 0;
  for (int round = 0; round < 200; ++round) {
    const Strings strings = RandomStrings(false, round % 2 ? 0.2 : 0.0, 3000, &random);
    ColumnLayout layout;
    layout.encoding = encodings[round % 3];
    layout.dictionary = round % 4 == 0;
    layout.dictionary_bytes = 3000;
    layout.v2_pages = round % 5 < 2;
    layout.page_bytes = 1500;
    std::string damaged = Write<parquet::ByteArrayType>(strings, layout)->ToString();
    const size_t chunk = damaged.size() * 4 / 5;  // the footer has checks of its own
    for (int i = 0; i < 1 + round % 7; ++i) {
      damaged[4 + random() % (chunk - 4)] = static_cast<char>(random());
    }
    OpenedColumn file(arrow::Buffer::FromString(std::move(damaged)));
    std::vector<ByteView> views;
    std::vector<uint8_t> valid;
    ByteArena arena;
    auto reader = MakeBytesReader(file.Chunk(), &spec).ValueOrDie();
    const Status status =
        ReadInPieces(reader.get(), &random, round % 2 == 0, &views, &valid, &arena);
    if (!status.ok()) {
      EXPECT_FALSE(status.message().empty());
      continue;
    }
    for (int64_t row = 0; row < kRows; ++row) {
      if (valid[row] == 7) continue;
      for (int64_t i = 0; i < views[row].size; ++i) sum += views[row].data[i];
    }
  }
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace fastload
