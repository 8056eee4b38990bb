#include "fastload/decode/lists/nested_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "level_pages.h"
#include "nested_file.h"

namespace fastload {
namespace {

using parquet::Repetition;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using testing::Encode;
using testing::List;
using testing::Packed;
using testing::Schema;

ListThresholds Thresholds(const NodePtr& column) {
  return ThresholdsOf(*Schema(column)->Column(0));
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

TEST(ListThresholds, NullElementsMayBeNullLists) {
  const NodePtr null = parquet::schema::PrimitiveNode::Make(
      "element", Repetition::OPTIONAL, parquet::LogicalType::Null(),
      parquet::Type::INT32);
  const NodePtr column = List(null, Repetition::OPTIONAL);
  const ListThresholds thresholds = ThresholdsOf(*Schema(column)->Column(0), 3);
  EXPECT_EQ(thresholds.max_definition, 4);  // which no element reaches
  EXPECT_EQ(thresholds.element, (std::vector<int>{2, 5, 5}));
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
    const testing::LevelBytes encoded = Encode(repetition, definition);
    const parquet::DataPageV2 page(encoded.bytes, static_cast<int32_t>(repetition.size()),
                                   0, 1, parquet::Encoding::PLAIN, encoded.definition,
                                   encoded.repetition, encoded.bytes->size());
    NestedLevels levels(*schema->Column(0), /*row_length=*/0,
                        PresentLevel(*schema->Column(0)));
    ASSERT_EQ(*levels.SetPage(page), encoded.bytes->size());
    bool has_starts = false;
    for (size_t at = 0; at < repetition.size();) {
      const auto rows = static_cast<int64_t>(random() % 5);
      const LevelSpan span = *levels.Next(rows);
      const bool only_starts = span.start_levels != nullptr;
      has_starts = has_starts || only_starts;
      int64_t starts = 0;
      for (int64_t i = 0; i < span.levels; ++i, ++at) {
        const bool begins = only_starts ? starts < span.starts &&
                                              span.start_levels[starts] == span.first + i
                                        : span.repetition[i] == 0;
        ASSERT_EQ(begins, repetition[at] == 0);
        ASSERT_EQ(only_starts ? 3 : span.definition[i], definition[at]);
        starts += begins ? 1 : 0;
      }
      EXPECT_EQ(span.starts, starts);
      ASSERT_LE(starts, rows);
      ASSERT_EQ(levels.left(), static_cast<int64_t>(repetition.size() - at));
      if (span.levels == 0) {
        ASSERT_EQ(rows, 0);
        ASSERT_EQ(repetition[at], 0);
      }
    }
    EXPECT_TRUE(has_starts);
  }
}

TEST(NestedLevels, RowsOfOneLengthAreOneSpan) {
  std::mt19937_64 random(3);
  for (const int32_t length : {16, 100, 128, 1536}) {
    const testing::NestedCase nested{
        "", arrow::fixed_size_list(arrow::int32(), length), {}};
    const auto array = testing::RandomArray(
        nested, 50, testing::RandomLists{.null_percent = 0}, &random);
    testing::OpenedLeaf file(testing::WriteArray(nested, array, testing::NestedLayout{}),
                             0);
    const ChunkInput input = file.Chunk();
    const auto page = input.pages->NextPage();
    NestedLevels levels(*input.descr, length, PresentLevel(*input.descr));
    ASSERT_TRUE(levels.SetPage(static_cast<const parquet::DataPage&>(*page)).ok());
    const LevelSpan first = *levels.Next(7);
    EXPECT_EQ(first.row_length, length);
    EXPECT_EQ(first.levels, 7 * length);
    EXPECT_EQ(first.starts, 7);
    const LevelSpan rest = *levels.Next(100);
    EXPECT_EQ(rest.levels, 43 * length);
    EXPECT_EQ(levels.left(), 0);
  }
}

}  // namespace
}  // namespace fastload
