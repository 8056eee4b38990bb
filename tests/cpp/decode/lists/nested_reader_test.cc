#include "fastload/decode/lists/nested_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "nested_cases.h"
#include "nested_file.h"
#include "parquet/column_writer.h"
#include "parquet/file_writer.h"

namespace fastload {
namespace {

using testing::LeafWalk;
using testing::NestedCase;
using testing::NestedCases;
using testing::NestedLayout;
using testing::OpenedLeaf;
using testing::RandomArray;
using testing::RandomLists;
using testing::ReadArray;
using testing::SpecOf;
using testing::WriteArray;

std::vector<std::string> Elements(const ColumnSpec& spec, const NestedRows& rows) {
  std::vector<std::string> elements;
  if (spec.bytes) {
    for (const ByteView& view : rows.views) {
      elements.emplace_back(reinterpret_cast<const char*>(view.data),
                            static_cast<size_t>(view.size));
    }
    return elements;
  }
  const auto width = static_cast<size_t>(ItemSize(spec.dtype));
  std::string data(static_cast<size_t>(rows.values.size()), 0);
  rows.values.Copy(0, rows.values.size(), reinterpret_cast<uint8_t*>(data.data()));
  for (size_t at = 0; at < data.size(); at += width) {
    elements.push_back(data.substr(at, width));
  }
  return elements;
}

// Reads the rows, or the rows left by random skips, in pieces, and compares them.
void CheckPieces(const NestedCase& nested, const std::shared_ptr<arrow::Buffer>& bytes,
                 const arrow::Array& array, bool skips, std::mt19937_64* random) {
  const ColumnSpec spec = SpecOf(nested);
  const int leaf = nested.path.empty() ? 0 : nested.path.back();
  OpenedLeaf file(bytes, leaf);
  auto reader = NestedReader::Make(file.Chunk(), &spec).ValueOrDie();
  LeafWalk expected(nested, *spec.fill);
  NestedRows rows;
  for (int64_t row = 0; row < array.length();) {
    const uint64_t most = (*random)() % 2 == 0 ? 8 : 900;
    const auto piece =
        std::min<int64_t>(array.length() - row, static_cast<int64_t>((*random)() % most));
    if (skips && (*random)() % 2 == 0) {
      ASSERT_TRUE(reader->Skip(piece).ok());
    } else {
      const Status status = reader->Read(piece, &rows, /*valid=*/true);
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (int64_t i = 0; i < piece; ++i) expected.AddRow(array, row + i);
    }
    row += piece;
  }
  if (rows.offsets.empty()) return;
  EXPECT_EQ(rows.offsets, expected.rows().offsets);
  EXPECT_EQ(rows.valid, expected.rows().valid);
  EXPECT_EQ(Elements(spec, rows), expected.rows().elements);
}

void CheckCase(const NestedCase& nested, const RandomLists& lists, int64_t rows,
               std::mt19937_64* random) {
  const auto array = RandomArray(nested, rows, lists, random);
  for (const bool v2 : {false, true}) {
    for (const bool dictionary : {false, true}) {
      for (const int64_t page_bytes : {100, 1500, 1 << 20}) {
        NestedLayout layout;
        layout.v2_pages = v2;
        layout.dictionary = dictionary;
        layout.page_bytes = page_bytes;
        if ((*random)() % 2 == 0) layout.codec = parquet::Compression::SNAPPY;
        SCOPED_TRACE(testing::Describe(nested, layout));
        const auto bytes = WriteArray(nested, array, layout);
        const auto read = ReadArray(bytes);
        for (const bool skips : {false, true}) {
          CheckPieces(nested, bytes, *read, skips, random);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(NestedReader, ReadsWhatArrowReads) {
  std::mt19937_64 random(1);
  for (const NestedCase& nested : NestedCases()) {
    CheckCase(nested, RandomLists{}, 600, &random);
    if (HasFailure()) return;
  }
}

TEST(NestedReader, ReadsListsWithoutNulls) {
  std::mt19937_64 random(2);
  for (const NestedCase& nested : NestedCases()) {
    CheckCase(nested, RandomLists{.null_percent = 0, .max_length = 2}, 600, &random);
    if (HasFailure()) return;
  }
}

TEST(NestedReader, ReadsLongLists) {
  std::mt19937_64 random(3);
  auto cases = NestedCases();
  cases.resize(6);
  for (const NestedCase& nested : cases) {
    for (const uint64_t null_percent : {0, 1, 60}) {
      const RandomLists lists{
          .null_percent = null_percent, .max_length = 700, .kinds = 100'000};
      CheckCase(nested, lists, 25, &random);
      if (HasFailure()) return;
    }
  }
}

TEST(NestedReader, ReadsNullsOnly) {
  std::mt19937_64 random(4);
  for (const NestedCase& nested : NestedCases()) {
    if (!nested.nullable) continue;
    CheckCase(nested, RandomLists{.null_percent = 100}, 300, &random);
    if (HasFailure()) return;
  }
}

// Writes two rows, in a list without the annotation or with two levels.
std::shared_ptr<arrow::Buffer> LegacyFile(const parquet::schema::NodePtr& node,
                                          const std::vector<int16_t>& definition,
                                          const std::vector<int16_t>& repetition,
                                          const std::vector<int32_t>& values) {
  auto root = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("root", parquet::Repetition::REQUIRED, {node}));
  auto sink = *arrow::io::BufferOutputStream::Create();
  auto file = parquet::ParquetFileWriter::Open(sink, root);
  auto* writer = static_cast<parquet::Int32Writer*>(file->AppendRowGroup()->NextColumn());
  writer->WriteBatch(static_cast<int64_t>(definition.size()), definition.data(),
                     repetition.data(), values.data());
  file->Close();
  return *sink->Finish();
}

NestedRows ReadInt32(const std::shared_ptr<arrow::Buffer>& bytes, int64_t rows) {
  const ColumnSpec spec = SpecOf({"", arrow::list(arrow::int32()), {}});
  OpenedLeaf file(bytes, 0);
  auto reader = NestedReader::Make(file.Chunk(), &spec).ValueOrDie();
  NestedRows out;
  const Status status = reader->Read(rows, &out, /*valid=*/true);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

std::vector<int32_t> Int32s(const NestedRows& rows) {
  std::vector<int32_t> values(static_cast<size_t>(rows.values.size()) / 4);
  rows.values.Copy(0, rows.values.size(), reinterpret_cast<uint8_t*>(values.data()));
  return values;
}

TEST(NestedReader, ReadsRepeatedFieldsWithoutAnnotation) {
  const auto leaf = parquet::schema::Int32("column", parquet::Repetition::REPEATED);
  const auto bytes = LegacyFile(leaf, {1, 1, 0, 1}, {0, 1, 0, 0}, {5, 6, 7});
  const NestedRows rows = ReadInt32(bytes, 3);
  EXPECT_EQ(rows.offsets.front(), (std::vector<int64_t>{0, 2, 2, 3}));
  EXPECT_EQ(rows.valid, (std::vector<uint8_t>{1, 1, 1}));
  EXPECT_EQ(Int32s(rows), (std::vector<int32_t>{5, 6, 7}));
}

TEST(NestedReader, ReadsListsOfTwoLevels) {
  const auto leaf = parquet::schema::Int32("array", parquet::Repetition::REPEATED);
  const auto list = parquet::schema::GroupNode::Make(
      "column", parquet::Repetition::OPTIONAL, {leaf}, parquet::LogicalType::List());
  const auto bytes = LegacyFile(list, {2, 2, 0, 1, 2}, {0, 1, 0, 0, 0}, {5, 6, 7});
  const NestedRows rows = ReadInt32(bytes, 4);
  EXPECT_EQ(rows.offsets.front(), (std::vector<int64_t>{0, 2, 2, 2, 3}));
  EXPECT_EQ(rows.valid, (std::vector<uint8_t>{1, 0, 1, 1}));
  EXPECT_EQ(Int32s(rows), (std::vector<int32_t>{5, 6, 7}));
}

}  // namespace
}  // namespace fastload
