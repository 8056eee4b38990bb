// Tests of categories: strings, binary and integers as hash buckets or as indices.
#include "fastload/decode/values/key_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "column_file.h"
#include "fastload/base/hash.h"
#include "fastload/decode/values/vocabulary.h"

namespace fastload {
namespace {

using parquet::Encoding;
using testing::ColumnData;
using testing::ColumnLayout;
using testing::LeafNode;
using testing::OpenedColumn;
using testing::WriteColumn;

constexpr uint64_t kSeed = 0x9E3779B97F4A7C15;
constexpr int64_t kBuckets = 1009;
constexpr int64_t kNull = -77;

ColumnSpec HashSpec() {
  ColumnSpec spec;
  spec.hash_buckets = kBuckets;
  spec.hash_seed = kSeed;
  spec.fill = std::string(reinterpret_cast<const char*>(&kNull), sizeof(kNull));
  return spec;
}

ColumnSpec CodesSpec(std::shared_ptr<const Vocabulary> vocabulary) {
  ColumnSpec spec = HashSpec();
  spec.hash_buckets = 0;
  spec.vocabulary = std::move(vocabulary);
  spec.unknown = 12345;
  return spec;
}

// Reads a chunk with a Skip in the middle; skipped rows are 0 in the result.
Result<std::vector<int64_t>> ReadRows(const std::shared_ptr<arrow::Buffer>& bytes,
                                      const ColumnSpec& spec, int64_t rows) {
  OpenedColumn file(bytes);
  ARROW_ASSIGN_OR_RAISE(auto reader, MakeFixedReader(file.Chunk(), &spec));
  std::vector<int64_t> out(static_cast<size_t>(rows));
  auto* raw = reinterpret_cast<uint8_t*>(out.data());
  const int64_t third = rows / 3;
  ARROW_RETURN_NOT_OK(reader->Read(third, raw, 8, nullptr));
  ARROW_RETURN_NOT_OK(reader->Skip(third));
  ARROW_RETURN_NOT_OK(reader->Read(rows - 2 * third, raw + 2 * third * 8, 8, nullptr));
  std::fill_n(out.begin() + third, third, 0);
  return out;
}

// A file of keys, and the expected code of each row.
template <typename Type>
void CheckFile(const parquet::schema::NodePtr& leaf, const ColumnData<Type>& data,
               const std::vector<int64_t>& codes, const ColumnSpec& spec,
               const ColumnLayout& layout) {
  std::vector<int64_t> expected;
  size_t next = 0;
  for (const uint8_t valid : data.valid) {
    expected.push_back(valid != 0 ? codes[next++] : kNull);
  }
  const auto rows = static_cast<int64_t>(expected.size());
  std::fill_n(expected.begin() + rows / 3, rows / 3, 0);
  const auto out = ReadRows(WriteColumn<Type>(leaf, data, layout), spec, rows);
  ASSERT_TRUE(out.ok()) << Describe(layout) << ": " << out.status().ToString();
  ASSERT_EQ(*out, expected) << Describe(layout);
}

std::vector<ColumnLayout> Layouts(const std::vector<Encoding::type>& encodings) {
  std::vector<ColumnLayout> layouts;
  for (const Encoding::type encoding : encodings) {
    for (const int64_t dictionary_bytes : {0, 500, 1 << 20}) {
      for (const bool v2 : {false, true}) {
        layouts.push_back({.encoding = encoding,
                           .dictionary = dictionary_bytes > 0,
                           .dictionary_bytes = dictionary_bytes,
                           .page_bytes = 700,
                           .v2_pages = v2});
      }
    }
  }
  return layouts;
}

std::vector<uint8_t> RandomValid(size_t rows, std::mt19937_64* random) {
  std::vector<uint8_t> valid(rows);
  for (uint8_t& byte : valid) byte = (*random)() % 4 != 0;
  return valid;
}

TEST(KeyEncoder, CodesStrings) {
  std::mt19937_64 random(1);
  std::vector<std::string> kinds(300);
  for (size_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = std::string(i % 60, static_cast<char>('a' + i % 26)) + std::to_string(i);
  }
  kinds[7].clear();
  const auto vocabulary = *Vocabulary::OfBytes({kinds.begin(), kinds.begin() + 150});
  for (const ColumnLayout& layout :
       Layouts({Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY,
                Encoding::DELTA_BYTE_ARRAY})) {
    ColumnData<parquet::ByteArrayType> data{{}, RandomValid(2500, &random)};
    std::vector<int64_t> hashes;
    std::vector<int64_t> indices;
    for (const uint8_t valid : data.valid) {
      if (valid == 0) continue;
      const size_t kind = random() % kinds.size();
      const std::string& key = kinds[kind];
      data.values.emplace_back(std::string_view(key));
      hashes.push_back(
          static_cast<int64_t>(Hash64(key.data(), key.size(), kSeed) % kBuckets));
      indices.push_back(kind < 150 ? static_cast<int64_t>(kind) : 12345);
    }
    const auto leaf = LeafNode(parquet::Type::BYTE_ARRAY, parquet::LogicalType::String());
    CheckFile(leaf, data, hashes, HashSpec(), layout);
    CheckFile(leaf, data, indices, CodesSpec(vocabulary), layout);
  }
}

TEST(KeyEncoder, CodesFixedBinary) {
  std::mt19937_64 random(2);
  for (const int length : {1, 5, 16}) {
    std::vector<std::string> kinds;
    for (int i = 0; i < 40; ++i)
      kinds.push_back(std::string(length, static_cast<char>(i)));
    const auto vocabulary = *Vocabulary::OfBytes({kinds.begin(), kinds.begin() + 20});
    for (const ColumnLayout& layout :
         Layouts({Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY,
                  Encoding::BYTE_STREAM_SPLIT})) {
      ColumnData<parquet::FLBAType> data{{}, RandomValid(2500, &random)};
      std::vector<int64_t> hashes;
      std::vector<int64_t> indices;
      for (const uint8_t valid : data.valid) {
        if (valid == 0) continue;
        const size_t kind = random() % kinds.size();
        const auto* bytes = reinterpret_cast<const uint8_t*>(kinds[kind].data());
        data.values.emplace_back(bytes);
        hashes.push_back(
            static_cast<int64_t>(Hash64(bytes, kinds[kind].size(), kSeed) % kBuckets));
        indices.push_back(kind < 20 ? static_cast<int64_t>(kind) : 12345);
      }
      const auto leaf = LeafNode(parquet::Type::FIXED_LEN_BYTE_ARRAY,
                                 parquet::LogicalType::None(), length);
      CheckFile(leaf, data, hashes, HashSpec(), layout);
      CheckFile(leaf, data, indices, CodesSpec(vocabulary), layout);
    }
  }
}

// `Widened` is the type of the value that a stored value stands for.
template <typename Type, typename Widened>
void CheckIntegers(const std::shared_ptr<const parquet::LogicalType>& logical) {
  using Stored = typename Type::c_type;
  std::mt19937_64 random(3);
  std::vector<Vocabulary::Integer> entries;
  for (int i = -20; i < 20; ++i) {
    const auto wide = static_cast<Widened>(i);
    const bool above = wide > 0 && static_cast<uint64_t>(wide) > INT64_MAX;
    entries.push_back({static_cast<uint64_t>(static_cast<int64_t>(wide)), above});
  }
  const auto vocabulary = *Vocabulary::OfIntegers(entries);
  for (const ColumnLayout& layout :
       Layouts({Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED,
                Encoding::BYTE_STREAM_SPLIT})) {
    ColumnData<Type> data{{}, RandomValid(2500, &random)};
    std::vector<int64_t> hashes;
    std::vector<int64_t> indices;
    for (const uint8_t valid : data.valid) {
      if (valid == 0) continue;
      const auto kind = static_cast<int64_t>(random() % 80) - 40;
      data.values.push_back(static_cast<Stored>(kind));
      const auto wide = static_cast<int64_t>(static_cast<Widened>(kind));
      hashes.push_back(static_cast<int64_t>(Hash64(&wide, 8, kSeed) % kBuckets));
      indices.push_back(kind >= -20 && kind < 20 ? kind + 20 : 12345);
    }
    CheckFile(LeafNode(Type::type_num, logical), data, hashes, HashSpec(), layout);
    CheckFile(LeafNode(Type::type_num, logical), data, indices, CodesSpec(vocabulary),
              layout);
  }
}

TEST(KeyEncoder, CodesIntegers) {
  using parquet::LogicalType;
  CheckIntegers<parquet::Int32Type, int32_t>(LogicalType::None());
  CheckIntegers<parquet::Int32Type, int8_t>(LogicalType::Int(8, true));
  CheckIntegers<parquet::Int32Type, uint8_t>(LogicalType::Int(8, false));
  CheckIntegers<parquet::Int32Type, uint32_t>(LogicalType::Int(32, false));
  CheckIntegers<parquet::Int64Type, int64_t>(LogicalType::None());
  CheckIntegers<parquet::Int64Type, uint64_t>(LogicalType::Int(64, false));
}

TEST(KeyEncoder, HandsOutTheDictionaryAsCodes) {
  ColumnData<parquet::ByteArrayType> data{{}, {1, 1, 1}};
  for (const char* key : {"b", "a", "b"}) data.values.emplace_back(key);
  const ColumnLayout layout{.dictionary = true};
  OpenedColumn file(WriteColumn<parquet::ByteArrayType>(
      LeafNode(parquet::Type::BYTE_ARRAY), data, layout));
  const ColumnSpec spec = CodesSpec(*Vocabulary::OfBytes({"a", "b"}));
  auto reader = *MakeFixedReader(file.Chunk(), &spec);
  const auto dictionary = *reader->Dictionary();
  ASSERT_EQ(dictionary.size(), 16);
  int64_t entries[2];
  std::memcpy(entries, dictionary.data(), 16);
  EXPECT_EQ(entries[0], 1);
  EXPECT_EQ(entries[1], 0);
}

Status MakeReader(const parquet::schema::NodePtr& leaf, const ColumnSpec& spec) {
  const parquet::ColumnDescriptor descr(leaf, 1, 0);
  return KeyEncoder::Make(descr, spec).status();
}

TEST(KeyEncoder, RefusesOtherColumns) {
  using parquet::LogicalType;
  const auto decimal = LogicalType::Decimal(9, 2);
  for (const auto& leaf :
       {LeafNode(parquet::Type::BOOLEAN), LeafNode(parquet::Type::FLOAT),
        LeafNode(parquet::Type::DOUBLE), LeafNode(parquet::Type::INT96),
        LeafNode(parquet::Type::INT32, decimal),
        LeafNode(parquet::Type::BYTE_ARRAY, decimal),
        LeafNode(parquet::Type::INT32, LogicalType::Date()),
        LeafNode(parquet::Type::INT64,
                 LogicalType::Timestamp(true, LogicalType::TimeUnit::MICROS)),
        LeafNode(parquet::Type::FIXED_LEN_BYTE_ARRAY, LogicalType::Float16(), 2)}) {
    const Status hashed = MakeReader(leaf, HashSpec());
    EXPECT_EQ(KindOf(hashed), ErrorKind::kUnsupported) << hashed.ToString();
    EXPECT_EQ(
        hashed.message().find(
            "Expected strings, binary, integers or decimals of scale 0 to hash, got "),
        0);
    const Status coded = MakeReader(leaf, CodesSpec(*Vocabulary::OfBytes({})));
    EXPECT_EQ(KindOf(coded), ErrorKind::kUnsupported);
  }
  EXPECT_EQ(
      MakeReader(LeafNode(parquet::Type::INT64), CodesSpec(*Vocabulary::OfBytes({"a"})))
          .message(),
      "Expected a vocabulary of integers for INT64 (None), got one of strings");
  EXPECT_TRUE(
      MakeReader(LeafNode(parquet::Type::INT32, LogicalType::Null()), HashSpec()).ok());
}

// With flipped bytes in the file, reading returns an error or codes, and never crashes.
TEST(KeyEncoder, SurvivesDamage) {
  std::mt19937_64 random(4);
  const ColumnSpec spec = HashSpec();
  const auto leaf = LeafNode(parquet::Type::BYTE_ARRAY);
  for (const ColumnLayout& layout :
       Layouts({Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY})) {
    ColumnData<parquet::ByteArrayType> data{{}, RandomValid(600, &random)};
    const std::string key(40, 'x');
    for (const uint8_t valid : data.valid) {
      if (valid != 0)
        data.values.emplace_back(static_cast<uint32_t>(random() % 40),
                                 reinterpret_cast<const uint8_t*>(key.data()));
    }
    const std::string whole =
        WriteColumn<parquet::ByteArrayType>(leaf, data, layout)->ToString();
    for (int round = 0; round < 40; ++round) {
      std::string damaged = whole;
      const size_t chunk = damaged.size() * 3 / 5;  // the footer has checks of its own
      for (int i = 0; i < 1 + round % 5; ++i) {
        damaged[4 + random() % (chunk - 4)] = static_cast<char>(random());
      }
      const auto out = ReadRows(arrow::Buffer::FromString(damaged), spec, 600);
      if (!out.ok()) {
        EXPECT_FALSE(out.status().message().empty());
      }
    }
  }
}

}  // namespace
}  // namespace fastload
