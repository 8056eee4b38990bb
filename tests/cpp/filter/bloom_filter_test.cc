#include "fastload/filter/bloom_filter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "arrow/io/memory.h"
#include "fastload/base/block_memory.h"
#include "fastload/base/counters.h"
#include "fastload/decode/values/vocabulary.h"
#include "fastload/filter/key_hasher.h"
#include "fastload/filter/row_group_search.h"
#include "parquet/arrow/writer.h"
#include "parquet/bloom_filter.h"
#include "parquet/file_reader.h"
#include "parquet/properties.h"
#include "row_files.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

constexpr int64_t kRows = 5000;  // of a row group

// Writes two row groups of different integers without statistics, the first of even
// numbers, the second of odd numbers.
void WriteNumbers(const std::string& path) {
  const auto schema = arrow::schema({arrow::field("number", arrow::int64())});
  parquet::WriterProperties::Builder properties;
  parquet::BloomFilterOptions options;
  options.ndv = kRows;
  options.fpp = 1e-6;
  properties.disable_dictionary()->disable_statistics()->enable_bloom_filter("number",
                                                                             options);
  auto sink = *arrow::io::FileOutputStream::Open(path);
  auto writer = *parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(),
                                                  sink, properties.build());
  for (int64_t group = 0; group < 2; ++group) {
    arrow::Int64Builder numbers;
    for (int64_t row = 0; row < kRows; ++row) numbers.Append(2 * row + group).ok();
    const auto table = arrow::Table::Make(schema, {*numbers.Finish()});
    PARQUET_THROW_NOT_OK(writer->WriteTable(*table, kRows));
  }
  PARQUET_THROW_NOT_OK(writer->Close());
  PARQUET_THROW_NOT_OK(sink->Close());
}

class BloomFilterTest : public ::testing::Test {
 protected:
  BloomFilterTest() {
    WriteNumbers(path_);
    spec_ = testing::SpecOf(path_);
    auto sink = *arrow::io::ReadableFile::Open(path_);
    const auto bytes = *sink->ReadAt(0, *sink->GetSize());
    file_.assign(bytes->data(), bytes->data() + bytes->size());
    ColumnSpec number;
    number.name = "number";
    number.leaves = {0};
    number.fill = std::string(8, '\0');
    columns_ = {number};
  }

  std::span<const uint8_t> At(const ByteRange& range) const {
    return std::span(file_).subspan(static_cast<size_t>(range.offset),
                                    static_cast<size_t>(range.bytes));
  }

  FooterChunk Chunk(int group) const { return *spec_.Chunk(group, 0); }

  int64_t FileBytes() const { return static_cast<int64_t>(file_.size()); }

  // Searches a row group for the keys, and adds up what is read.
  FoundRows Search(int32_t group, std::vector<KeyRange> keys, bool nulls = false,
                   bool decodes = true) {
    const RowFilter filter{
        .tests = {{.column = 0, .ranges = std::move(keys), .nulls = nulls}},
        .program = {0}};
    FileTable files({spec_});
    BlockPool fetches(MakePrivateMemory(), 1 << 20);
    BlockPool page_blocks(MakePrivateMemory(), 0);
    BlockMemory pool(&page_blocks);
    return *SearchRowGroup({.files = &files,
                            .columns = &columns_,
                            .filter = &filter,
                            .fetches = &fetches,
                            .pool = &pool,
                            .counters = &counters_,
                            .decodes = decodes},
                           {0, group});
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("numbers.parquet");
  FileSpec spec_;
  std::vector<uint8_t> file_;
  std::vector<ColumnSpec> columns_;
  Counters counters_;
};

TEST_F(BloomFilterTest, BlocksSayWhatLibparquetSays) {
  arrow::io::BufferReader stream(
      std::make_shared<arrow::Buffer>(file_.data(), FileBytes()));
  for (int group = 0; group < 2; ++group) {
    auto filter = BloomFilter::Find(Chunk(group), FileBytes());
    ASSERT_TRUE(filter);
    EXPECT_TRUE(filter->sized());
    EXPECT_TRUE(filter->ReadHeader(At(filter->header())));
    ASSERT_TRUE(stream.Seek(filter->header().offset).ok());
    const auto expected = parquet::BlockSplitBloomFilter::Deserialize(
        parquet::default_reader_properties(), &stream);
    std::mt19937_64 random(1);
    for (int64_t i = 0; i < 20'000; ++i) {
      const uint64_t hash = i < 2 * kRows ? expected.Hash(i) : random();
      EXPECT_EQ(BloomFilter::MayContain(At(filter->Block(hash)), hash),
                expected.FindHash(hash));
    }
  }
}

TEST_F(BloomFilterTest, HeadersOfOtherSizesAreRefused) {
  for (uint32_t bytes = 32; bytes <= (1U << 20); bytes *= 2) {
    parquet::BlockSplitBloomFilter written;
    written.Init(bytes);
    auto sink = *arrow::io::BufferOutputStream::Create();
    written.WriteTo(sink.get());
    const auto buffer = *sink->Finish();
    const std::span<const uint8_t> header(buffer->data(), 20);
    auto filter = BloomFilter::Find(Chunk(0), int64_t{1} << 40);
    ASSERT_TRUE(filter);
    // The footer says another length.
    const bool same = buffer->size() == Chunk(0).bloom_filter.bytes;
    EXPECT_EQ(filter->ReadHeader(header), same) << bytes;
  }
}

TEST_F(BloomFilterTest, OtherHeadersAreRefused) {
  const auto filter = *BloomFilter::Find(Chunk(0), FileBytes());
  const auto header = At(filter.header());
  for (size_t at = 0; at < header.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> changed(header.begin(), header.end());
      changed[at] ^= static_cast<uint8_t>(1 << bit);
      BloomFilter copy = filter;
      EXPECT_FALSE(copy.ReadHeader(changed)) << at;
    }
    BloomFilter copy = filter;
    EXPECT_FALSE(copy.ReadHeader(header.first(at)));
  }
}

TEST_F(BloomFilterTest, FiltersOutsideTheFileAreRefused) {
  const ByteRange range = Chunk(1).bloom_filter;
  const int64_t end = range.offset + range.bytes;
  EXPECT_TRUE(BloomFilter::Find(Chunk(1), end));
  EXPECT_FALSE(BloomFilter::Find(Chunk(1), end - 1));
  EXPECT_FALSE(BloomFilter::Find(Chunk(1), 4));
}

TEST_F(BloomFilterTest, RowGroupsWithoutTheValueAreNotRead) {
  EXPECT_EQ(Search(1, {{0, 0}, {4000, 4000}}).count, 0);
  EXPECT_EQ(Search(0, {{4001, 4001}, {9999, 9999}}).count, 0);
  EXPECT_EQ(Search(0, {{10'001, 10'003}}).count, 0);
  EXPECT_LT(counters_.read_bytes, 10'000);
  EXPECT_GT(counters_.read_bytes, 0);
}

TEST_F(BloomFilterTest, RowGroupsWithTheValueAreRead) {
  EXPECT_EQ(Search(0, {{0, 0}, {4001, 4001}}).count, 1);
  EXPECT_GT(counters_.read_bytes, kRows * 8);
  EXPECT_EQ(Search(1, {{0, 0}, {4000, 4001}}).count, 1);
  EXPECT_EQ(Search(1, {{1, 9}}).count, 5);
}

TEST_F(BloomFilterTest, BloomFiltersThatCannotDecideAreNotRead) {
  const int64_t chunk = Chunk(0).compressed_bytes;
  EXPECT_EQ(Search(0, {{INT64_MIN, 99}}).count, 50);  // too many values to look up
  EXPECT_EQ(counters_.read_bytes, chunk);
  EXPECT_EQ(Search(0, {{1, 1}}, /*nulls=*/true).count, 0);  // rows may be null
  EXPECT_EQ(counters_.read_bytes, 2 * chunk);
}

TEST_F(BloomFilterTest, WithoutDecodingUndecidedRowGroupsCount) {
  EXPECT_EQ(Search(0, {{4000, 4000}}, false, /*decodes=*/false).count, kRows);
  EXPECT_EQ(Search(1, {{4000, 4000}}, false, /*decodes=*/false).count, 0);
  EXPECT_LT(counters_.read_bytes, 10'000);
}

// The column of a schema with this one column.
parquet::SchemaDescriptor SchemaOf(
    parquet::Type::type physical,
    const std::shared_ptr<const parquet::LogicalType>& logical, int length = -1) {
  const auto leaf = parquet::schema::PrimitiveNode::Make(
      "column", parquet::Repetition::OPTIONAL, logical, physical, length);
  parquet::SchemaDescriptor schema;
  schema.Init(
      parquet::schema::GroupNode::Make("root", parquet::Repetition::REQUIRED, {leaf}));
  return schema;
}

ColumnSpec SpecOf(DType dtype) {
  ColumnSpec spec;
  spec.leaves = {0};
  spec.dtype = dtype;
  return spec;
}

TEST(KeyHasherTest, HashesAreThoseOfLibparquet) {
  parquet::BlockSplitBloomFilter expected;
  expected.Init(32);
  const auto none = parquet::LogicalType::None();
  const auto hash = [](const parquet::SchemaDescriptor& schema, const ColumnSpec& spec,
                       int64_t key) {
    return KeyHasher::Make(*schema.Column(0), spec, 0)->Hash(key);
  };
  const auto int32 = SchemaOf(parquet::Type::INT32, none);
  EXPECT_EQ(hash(int32, SpecOf(DType::kInt32), -5), expected.Hash(int32_t{-5}));
  EXPECT_EQ(hash(int32, SpecOf(DType::kInt64), -5), expected.Hash(int32_t{-5}));
  EXPECT_EQ(hash(int32, SpecOf(DType::kInt64), int64_t{1} << 31), std::nullopt);
  const auto int64 = SchemaOf(parquet::Type::INT64, none);
  EXPECT_EQ(hash(int64, SpecOf(DType::kInt64), INT64_MIN), expected.Hash(INT64_MIN));
  const auto uint32 =
      SchemaOf(parquet::Type::INT32, parquet::LogicalType::Int(32, false));
  EXPECT_EQ(hash(uint32, SpecOf(DType::kUInt32), UINT32_MAX), expected.Hash(int32_t{-1}));
  EXPECT_EQ(hash(uint32, SpecOf(DType::kInt64), -1), std::nullopt);
  const auto uint64 =
      SchemaOf(parquet::Type::INT64, parquet::LogicalType::Int(64, false));
  EXPECT_EQ(hash(uint64, SpecOf(DType::kUInt64), INT64_MAX), expected.Hash(int64_t{-1}));
  EXPECT_EQ(hash(uint64, SpecOf(DType::kUInt64), INT64_MIN), expected.Hash(int64_t{0}));

  const auto float32 = SchemaOf(parquet::Type::FLOAT, none);
  for (const float value : {1.5F, -1.5F, -3e38F}) {
    const auto key = KeyOf(DType::kFloat32, reinterpret_cast<const uint8_t*>(&value));
    EXPECT_EQ(hash(float32, SpecOf(DType::kFloat32), *key), expected.Hash(value));
  }
  const auto float64 = SchemaOf(parquet::Type::DOUBLE, none);
  for (const double value : {1.5, -1.5, -1e300}) {
    const auto key = KeyOf(DType::kFloat64, reinterpret_cast<const uint8_t*>(&value));
    EXPECT_EQ(hash(float64, SpecOf(DType::kFloat64), *key), expected.Hash(value));
  }
  for (const int64_t key : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(hash(float32, SpecOf(DType::kFloat32), key), std::nullopt);
    EXPECT_EQ(hash(float64, SpecOf(DType::kFloat64), key), std::nullopt);
  }

  ColumnSpec decimals = SpecOf(DType::kInt64);
  decimals.unscaled = true;
  const auto decimal = parquet::LogicalType::Decimal(5, 2);
  const auto fixed = SchemaOf(parquet::Type::FIXED_LEN_BYTE_ARRAY, decimal, 3);
  const std::string bytes = "\xFF\xFE\xDC";  // -292
  const parquet::FLBA flba(reinterpret_cast<const uint8_t*>(bytes.data()));
  EXPECT_EQ(hash(fixed, decimals, -292), expected.Hash(&flba, 3));
  EXPECT_EQ(hash(fixed, decimals, 1 << 23), std::nullopt);
  EXPECT_EQ(hash(SchemaOf(parquet::Type::INT32, decimal), decimals, -292),
            expected.Hash(int32_t{-292}));

  ColumnSpec words = SpecOf(DType::kInt64);
  words.vocabulary = *Vocabulary::OfBytes({"", "word"});
  const parquet::ByteArray word("word");
  const auto strings =
      SchemaOf(parquet::Type::BYTE_ARRAY, parquet::LogicalType::String());
  EXPECT_EQ(hash(strings, words, 1), expected.Hash(&word));
  EXPECT_EQ(hash(strings, words, -1), std::nullopt);
  EXPECT_EQ(hash(strings, words, 2), std::nullopt);
}

TEST(KeyHasherTest, ConvertedValuesHaveNoHashes) {
  const auto none = parquet::LogicalType::None();
  const auto hasher = [](const parquet::SchemaDescriptor& schema,
                         const ColumnSpec& spec) {
    return KeyHasher::Make(*schema.Column(0), spec, 0).has_value();
  };
  const auto int32 = SchemaOf(parquet::Type::INT32, none);
  EXPECT_FALSE(hasher(int32, SpecOf(DType::kFloat64)));
  EXPECT_FALSE(hasher(SchemaOf(parquet::Type::FLOAT, none), SpecOf(DType::kFloat64)));
  EXPECT_FALSE(hasher(SchemaOf(parquet::Type::BOOLEAN, none), SpecOf(DType::kBool)));
  EXPECT_FALSE(hasher(SchemaOf(parquet::Type::INT96, none), SpecOf(DType::kInt64)));
  ColumnSpec scaled = SpecOf(DType::kInt64);
  scaled.multipliers = {1000};
  EXPECT_FALSE(hasher(SchemaOf(parquet::Type::INT64, none), scaled));
  const auto int8 = SchemaOf(parquet::Type::INT32, parquet::LogicalType::Int(8, true));
  const auto spec = SpecOf(DType::kInt8);
  EXPECT_TRUE(KeyHasher::Make(*int8.Column(0), spec, 0)->needs_bounds());
}

}  // namespace
}  // namespace fastload
