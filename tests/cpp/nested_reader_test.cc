#include "fastload/nested_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "nested_file.h"
#include "parquet/column_writer.h"
#include "parquet/file_writer.h"

namespace fastload {
namespace {

using testing::ExpectedRows;
using testing::LeafWalk;
using testing::NestedCase;
using testing::NestedLayout;
using testing::OpenedLeaf;
using testing::RandomArray;
using testing::RandomLists;
using testing::ReadArray;
using testing::WriteArray;

std::vector<NestedCase> Cases() {
  const auto required = [](const std::shared_ptr<arrow::DataType>& type) {
    return arrow::field("element", type, /*nullable=*/false);
  };
  const auto i32 = arrow::int32();
  const auto f64 = arrow::float64();
  const auto text = arrow::utf8();
  const auto pair =
      arrow::struct_({arrow::field("a", i32), arrow::field("b", arrow::list(text))});
  const auto around = arrow::struct_({arrow::field("list", arrow::list(pair))});
  return {
      {"list<int32>", arrow::list(i32), {}},
      {"required list<required int32>", arrow::list(required(i32)), {}, 1, 0, false},
      {"list<required int32>", arrow::list(required(i32)), {}},
      {"large_list<double>", arrow::large_list(f64), {}},
      {"list<bool>", arrow::list(arrow::boolean()), {}},
      {"list<string>", arrow::list(text), {}},
      {"list<list<double>>", arrow::list(arrow::list(f64)), {}, 2},
      {"list<required list<required string>>",
       arrow::list(required(arrow::list(required(text)))),
       {},
       2},
      {"list<list<list<int32>>>", arrow::list(arrow::list(arrow::list(i32))), {}, 3},
      {"map key", arrow::map(text, i32), {0}},
      {"map value", arrow::map(text, i32), {1}},
      {"struct<list<struct>>.a", around, {0, 0}, 1},
      {"struct<list<struct>>.b", around, {0, 1}, 2},
      {"fixed_size_list as a list", arrow::fixed_size_list(i32, 3), {}},
      {"list<fixed_size_list<double>>",
       arrow::list(arrow::fixed_size_list(f64, 4)),
       {},
       1,
       4},
      {"list<fixed_size_list<int32, 21>>",
       arrow::list(arrow::fixed_size_list(i32, 21)),
       {},
       1,
       21},
      {"list<fixed_size_list<fixed_size_list<int32>>>",
       arrow::list(arrow::fixed_size_list(arrow::fixed_size_list(i32, 2), 3)),
       {},
       1,
       6},
  };
}

const arrow::DataType& LeafType(const NestedCase& nested) {
  const arrow::DataType* type = nested.type.get();
  size_t at = 0;
  while (type->num_fields() > 0) {
    const bool child = type->id() == arrow::Type::STRUCT;
    type = type->field(child ? nested.path[at++] : 0)->type().get();
  }
  return *type;
}

ColumnSpec SpecOf(const NestedCase& nested) {
  ColumnSpec spec;
  spec.name = "column";
  spec.depth = nested.depth;
  spec.list_size = nested.list_size;
  spec.null_lists = true;
  switch (LeafType(nested).id()) {
    case arrow::Type::INT32:
      spec.dtype = DType::kInt32;
      break;
    case arrow::Type::DOUBLE:
      spec.dtype = DType::kFloat64;
      break;
    case arrow::Type::BOOL:
      spec.dtype = DType::kBool;
      break;
    default:
      spec.dtype = DType::kUInt8;
      spec.bytes = true;
  }
  spec.fill = spec.bytes ? "(null)"
                         : std::string(static_cast<size_t>(ItemSize(spec.dtype)), '\x5A');
  return spec;
}

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
  const auto* data = reinterpret_cast<const char*>(rows.values.data());
  for (size_t at = 0; at < static_cast<size_t>(rows.values.length()); at += width) {
    elements.emplace_back(data + at, width);
  }
  return elements;
}

// Reads the rows, or those left by random skips, in pieces, and compares them.
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
  for (const NestedCase& nested : Cases()) {
    CheckCase(nested, RandomLists{}, 1500, &random);
    if (HasFailure()) return;
  }
}

TEST(NestedReader, ReadsListsWithoutNulls) {
  std::mt19937_64 random(2);
  for (const NestedCase& nested : Cases()) {
    CheckCase(nested, RandomLists{.null_percent = 0, .max_length = 2}, 1500, &random);
    if (HasFailure()) return;
  }
}

TEST(NestedReader, ReadsLongLists) {
  std::mt19937_64 random(3);
  auto cases = Cases();
  cases.resize(6);
  for (const NestedCase& nested : cases) {
    for (const uint64_t null_percent : {0, 1, 60}) {
      const RandomLists lists{
          .null_percent = null_percent, .max_length = 700, .kinds = 100'000};
      CheckCase(nested, lists, 60, &random);
      if (HasFailure()) return;
    }
  }
}

TEST(NestedReader, ReadsNullsOnly) {
  std::mt19937_64 random(4);
  for (const NestedCase& nested : Cases()) {
    if (!nested.nullable) continue;
    CheckCase(nested, RandomLists{.null_percent = 100}, 300, &random);
    if (HasFailure()) return;
  }
}

// Two rows, in a list written without the annotation or with two levels.
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
  const auto* data = reinterpret_cast<const int32_t*>(rows.values.data());
  return {data, data + rows.values.length() / 4};
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

Status ReadOnce(const NestedCase& nested, const std::shared_ptr<arrow::Buffer>& bytes,
                const ColumnSpec& spec, int64_t rows) {
  OpenedLeaf file(bytes, nested.path.empty() ? 0 : nested.path.back());
  ARROW_ASSIGN_OR_RAISE(auto reader, NestedReader::Make(file.Chunk(), &spec));
  NestedRows out;
  return reader->Read(rows, &out, /*valid=*/true);
}

TEST(NestedReader, NullsWithoutFillAreErrors) {
  const NestedCase nested{"list<int32>", arrow::list(arrow::int32()), {}};
  const auto type = nested.type;
  auto builder = *arrow::MakeBuilder(type);
  auto* lists = static_cast<arrow::ListBuilder*>(builder.get());
  PARQUET_THROW_NOT_OK(lists->Append());
  PARQUET_THROW_NOT_OK(lists->value_builder()->AppendNull());
  PARQUET_THROW_NOT_OK(lists->AppendNull());
  const auto bytes = WriteArray(nested, *builder->Finish(), NestedLayout{});
  ColumnSpec spec = SpecOf(nested);
  EXPECT_TRUE(ReadOnce(nested, bytes, spec, 2).ok());
  spec.fill = std::nullopt;
  const Status element = ReadOnce(nested, bytes, spec, 1);
  EXPECT_EQ(KindOf(element), ErrorKind::kNullValue);
  EXPECT_EQ(element.message(),
            "Expected no null, got one (write fill= or valid=True for this column)");
  spec = SpecOf(nested);
  spec.null_lists = false;
  EXPECT_TRUE(ReadOnce(nested, bytes, spec, 1).ok());
  const Status list = ReadOnce(nested, bytes, spec, 2);
  EXPECT_EQ(KindOf(list), ErrorKind::kNullValue);
  EXPECT_EQ(list.message(),
            "Expected no null list, got one (write fill= or valid=True for this column)");
}

TEST(NestedReader, ListsOfAnotherSizeAreErrors) {
  std::mt19937_64 random(5);
  const NestedCase nested{"list<fixed_size_list>",
                          arrow::list(arrow::fixed_size_list(arrow::int32(), 4)),
                          {}};
  const auto array = RandomArray(nested, 100, RandomLists{}, &random);
  const auto bytes = WriteArray(nested, array, NestedLayout{});
  ColumnSpec spec = SpecOf(nested);
  for (const int64_t list_size : {1, 3, 5, 8}) {
    spec.list_size = list_size;
    const Status status = ReadOnce(nested, bytes, spec, 100);
    EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile) << status.ToString();
  }
}

TEST(NestedReader, MoreRowsThanThereAreIsAnError) {
  std::mt19937_64 random(6);
  const NestedCase nested{"list<int32>", arrow::list(arrow::int32()), {}};
  const auto bytes =
      WriteArray(nested, RandomArray(nested, 10, RandomLists{}, &random), NestedLayout{});
  const ColumnSpec spec = SpecOf(nested);
  EXPECT_EQ(KindOf(ReadOnce(nested, bytes, spec, 11)), ErrorKind::kCorruptFile);
}

TEST(NestedReader, DamagedBytesAreErrorsOrValues) {
  std::mt19937_64 random(7);
  for (const NestedCase& nested : Cases()) {
    const auto array = RandomArray(nested, 300, RandomLists{}, &random);
    const ColumnSpec spec = SpecOf(nested);
    for (int trial = 0; trial < 60; ++trial) {
      NestedLayout layout;
      layout.v2_pages = trial % 2 == 0;
      layout.dictionary = trial % 4 < 2;
      layout.page_bytes = 600;
      const auto bytes = WriteArray(nested, array, layout);
      auto damaged = *bytes->CopySlice(0, bytes->size());
      // Only pages are damaged: the footer and its length stay as they are.
      uint32_t footer_bytes;
      std::memcpy(&footer_bytes, bytes->data() + bytes->size() - 8, 4);
      const auto pages = static_cast<uint64_t>(bytes->size()) - 12 - footer_bytes;
      for (int i = 0; i < 1 + trial % 5; ++i) {
        damaged->mutable_data()[4 + random() % pages] = static_cast<uint8_t>(random());
      }
      const Status status = ReadOnce(nested, damaged, spec, 300);
      if (!status.ok()) {
        EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile) << status.ToString();
      }
    }
  }
}

}  // namespace
}  // namespace fastload
