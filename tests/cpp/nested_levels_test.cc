#include "fastload/nested_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "arrow/buffer.h"

namespace fastload {
namespace {

using parquet::Repetition;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;

// The leaf of a schema of one column.
std::unique_ptr<parquet::SchemaDescriptor> Schema(const NodePtr& column) {
  auto schema = std::make_unique<parquet::SchemaDescriptor>();
  schema->Init(GroupNode::Make("root", Repetition::REQUIRED, {column}));
  return schema;
}

ListThresholds Thresholds(const NodePtr& column) {
  return ThresholdsOf(*Schema(column)->Column(0));
}

NodePtr List(const NodePtr& element, Repetition::type repetition) {
  return GroupNode::Make("list", repetition,
                         {GroupNode::Make("list", Repetition::REPEATED, {element})},
                         parquet::LogicalType::List());
}

TEST(ListThresholds, FollowThePathToTheLeaf) {
  const auto leaf = [](Repetition::type repetition) {
    return parquet::schema::Int32("element", repetition);
  };
  ListThresholds thresholds = Thresholds(leaf(Repetition::REPEATED));
  EXPECT_EQ(thresholds.max_definition, 1);
  EXPECT_EQ(thresholds.element, std::vector<int>{1});

  thresholds = Thresholds(List(leaf(Repetition::OPTIONAL), Repetition::OPTIONAL));
  EXPECT_EQ(thresholds.max_definition, 3);
  EXPECT_EQ(thresholds.element, std::vector<int>{2});

  const NodePtr inner = List(leaf(Repetition::REQUIRED), Repetition::OPTIONAL);
  const NodePtr between = GroupNode::Make("struct", Repetition::OPTIONAL, {inner});
  thresholds = Thresholds(List(between, Repetition::REQUIRED));
  EXPECT_EQ(thresholds.max_definition, 4);
  EXPECT_EQ(thresholds.element, (std::vector<int>{1, 4}));
}

// The front of `bytes` are bit-packed levels, the lowest bits first.
std::vector<uint8_t> Packed(const std::vector<uint8_t>& levels, int width) {
  std::vector<uint8_t> bytes((levels.size() * width + 7) / 8);
  for (size_t i = 0; i < levels.size() * width; ++i) {
    const int bit = levels[i / width] >> (i % width) & 1;
    bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | bit << (i % 8));
  }
  return bytes;
}

TEST(LevelStream, DecodesTheDeprecatedEncoding) {
  std::mt19937 random(1);
  std::vector<uint8_t> levels(3000);
  for (uint8_t& level : levels) level = static_cast<uint8_t>(random() % 3);
  const auto bytes = Packed(levels, 2);
  LevelStream stream(2);
  EXPECT_EQ(*stream.SetV1(parquet::Encoding::BIT_PACKED, 3000, bytes.data(),
                          static_cast<int64_t>(bytes.size())),
            static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(stream.Peek()->length, 0);
  std::vector<uint8_t> out(3000);
  ASSERT_TRUE(stream.Decode(3000, out.data()).ok());
  EXPECT_EQ(out, levels);
  EXPECT_EQ(KindOf(stream.Decode(1, out.data())), ErrorKind::kCorruptFile);
}

TEST(LevelStream, LevelsBeyondTheMaximumAreErrors) {
  const std::vector<uint8_t> run = {20 << 1, 3};
  LevelStream stream(2);
  ASSERT_TRUE(stream.SetV2(run.data(), 2).ok());
  std::vector<uint8_t> out(20);
  EXPECT_EQ(KindOf(stream.Decode(20, out.data())), ErrorKind::kCorruptFile);
}

// A page of V2 of bit-packed repetition levels (maximum 1) and of definition levels
// (maximum 3) that are all 3 but those listed.
std::shared_ptr<arrow::Buffer> PageBytes(const std::vector<uint8_t>& repetition,
                                         const std::vector<uint8_t>& definition,
                                         int32_t* repetition_bytes) {
  std::vector<uint8_t> bytes;
  const auto put = [&](size_t header) {
    for (; header >= 0x80; header >>= 7) {
      bytes.push_back(static_cast<uint8_t>(header | 0x80));
    }
    bytes.push_back(static_cast<uint8_t>(header));
  };
  put((repetition.size() + 7) / 8 << 1 | 1);
  const auto packed = Packed(repetition, 1);
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  *repetition_bytes = static_cast<int32_t>(bytes.size());
  for (size_t i = 0; i < definition.size();) {
    const auto end =
        std::find_if(definition.begin() + static_cast<int64_t>(i), definition.end(),
                     [&](uint8_t level) { return level != definition[i]; });
    const auto length = static_cast<size_t>(end - definition.begin()) - i;
    put(length << 1);
    bytes.push_back(definition[i]);
    i += length;
  }
  return arrow::Buffer::FromVector(std::move(bytes));
}

TEST(NestedLevels, SpansEndWhereRowsDo) {
  std::mt19937 random(2);
  const NodePtr list = List(parquet::schema::Int32("element"), Repetition::OPTIONAL);
  const auto schema = Schema(list);
  for (const unsigned shortest : {1, 400}) {
    std::vector<uint8_t> repetition;
    std::vector<uint8_t> definition;
    while (repetition.size() < 30'000) {
      const size_t length = shortest + random() % 300;
      repetition.push_back(0);
      repetition.resize(repetition.size() + length - 1, 1);
      definition.resize(repetition.size(), 3);
      if (random() % 20 == 0) definition.back() = 2;
    }
    int32_t repetition_bytes = 0;
    const auto bytes = PageBytes(repetition, definition, &repetition_bytes);
    const parquet::DataPageV2 page(bytes, static_cast<int32_t>(repetition.size()), 0, 1,
                                   parquet::Encoding::PLAIN,
                                   static_cast<int32_t>(bytes->size()) - repetition_bytes,
                                   repetition_bytes, bytes->size());
    NestedLevels levels(*schema->Column(0));
    ASSERT_EQ(*levels.SetPage(page), bytes->size());
    bool has_bits = false;
    for (size_t at = 0; at < repetition.size();) {
      const auto rows = static_cast<int64_t>(random() % 5);
      const LevelSpan span = *levels.Next(rows);
      has_bits = has_bits || span.bits != nullptr;
      int64_t starts = 0;
      for (int64_t i = 0; i < span.levels; ++i, ++at) {
        const int64_t bit = span.first + i;
        const auto level = span.bits != nullptr ? span.bits[bit / 64] >> (bit % 64) & 1
                                                : span.repetition[i];
        ASSERT_EQ(level, repetition[at]);
        ASSERT_EQ(span.bits != nullptr ? 3 : span.definition[i], definition[at]);
        starts += level == 0 ? 1 : 0;
      }
      EXPECT_EQ(span.starts, starts);
      ASSERT_LE(starts, rows);
      ASSERT_EQ(levels.left(), static_cast<int64_t>(repetition.size() - at));
      if (span.levels == 0) {
        ASSERT_EQ(rows, 0);
        ASSERT_EQ(repetition[at], 0);
      }
    }
    EXPECT_TRUE(has_bits);
  }
}

}  // namespace
}  // namespace fastload
