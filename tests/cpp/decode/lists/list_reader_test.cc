#include "fastload/decode/lists/list_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fastload/decode/chunk_reader.h"
#include "nested_file.h"

namespace fastload {
namespace {

using testing::LeafWalk;
using testing::NestedCase;
using testing::NestedLayout;
using testing::OpenedLeaf;
using testing::RandomArray;
using testing::RandomLists;
using testing::ReadArray;
using testing::WriteArray;

NestedCase Case(const std::shared_ptr<arrow::DataType>& type, int64_t list_size,
                std::vector<int> path = {}) {
  return {type->ToString(), type, std::move(path), 0, list_size};
}

std::vector<NestedCase> Cases() {
  const auto i32 = arrow::int32();
  const auto f64 = arrow::float64();
  const auto required = arrow::field("element", f64, /*nullable=*/false);
  const auto inside = arrow::struct_({arrow::field("a", arrow::fixed_size_list(i32, 2))});
  return {
      Case(arrow::fixed_size_list(i32, 1), 1),
      Case(arrow::fixed_size_list(f64, 3), 3),
      Case(arrow::fixed_size_list(required, 17), 17),
      Case(arrow::fixed_size_list(i32, 64), 64),
      Case(arrow::fixed_size_list(required, 128), 128),
      Case(arrow::fixed_size_list(i32, 1000), 1000),
      Case(inside, 2, {0}),
      Case(arrow::fixed_size_list(arrow::fixed_size_list(i32, 5), 2), 10),
      Case(arrow::fixed_size_list(
               arrow::fixed_size_list(arrow::fixed_size_list(f64, 2), 3), 2),
           12),
  };
}

ColumnSpec ListSpecOf(const NestedCase& nested) {
  ColumnSpec spec;
  spec.name = "column";
  spec.list_size = nested.list_size;
  spec.null_lists = true;
  const bool narrow = nested.name.find("int32") != std::string::npos;
  spec.dtype = narrow ? DType::kInt32 : DType::kFloat64;
  spec.fill = std::string(static_cast<size_t>(ItemSize(spec.dtype)), '\x5A');
  return spec;
}

// Reads the rows, or the rows left by random skips, in pieces and with random strides.
void CheckListPieces(const NestedCase& nested,
                     const std::shared_ptr<arrow::Buffer>& bytes,
                     const arrow::Array& array, bool skips, std::mt19937_64* random) {
  const ColumnSpec spec = ListSpecOf(nested);
  const int64_t row_bytes = spec.list_size * ItemSize(spec.dtype);
  OpenedLeaf file(bytes, 0);
  auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
  EXPECT_TRUE(reader->Dictionary()->empty());
  for (int64_t row = 0; row < array.length();) {
    const uint64_t most = (*random)() % 2 == 0 ? 8 : 900;
    const auto piece =
        std::min<int64_t>(array.length() - row, static_cast<int64_t>((*random)() % most));
    if (skips && (*random)() % 2 == 0) {
      ASSERT_TRUE(reader->Skip(piece).ok());
      row += piece;
      continue;
    }
    const int64_t stride = row_bytes + ((*random)() % 2 == 0 ? 0 : 24);
    std::vector<uint8_t> out(static_cast<size_t>(piece * stride));
    std::vector<uint8_t> valid(static_cast<size_t>(piece), 7);
    const Status status = reader->Read(piece, out.data(), stride, valid.data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    LeafWalk expected(nested, *spec.fill);
    for (int64_t i = 0; i < piece; ++i) expected.AddRow(array, row + i);
    std::string dense;
    for (int64_t i = 0; i < piece; ++i) {
      dense.append(reinterpret_cast<const char*>(out.data()) + i * stride,
                   static_cast<size_t>(row_bytes));
    }
    std::string wanted;
    for (const std::string& element : expected.rows().elements) wanted += element;
    ASSERT_TRUE(dense == wanted) << "rows from " << row;
    ASSERT_EQ(valid, expected.rows().valid);
    row += piece;
  }
}

void CheckCase(const NestedCase& nested, uint64_t null_percent, int64_t rows,
               std::mt19937_64* random) {
  const RandomLists lists{.null_percent = null_percent};
  const auto array = RandomArray(nested, rows, lists, random);
  for (const bool v2 : {false, true}) {
    for (const bool dictionary : {false, true}) {
      for (const int64_t page_bytes : {100, 3000, 1 << 20}) {
        NestedLayout layout;
        layout.v2_pages = v2;
        layout.dictionary = dictionary;
        layout.page_bytes = page_bytes;
        if ((*random)() % 2 == 0) layout.codec = parquet::Compression::SNAPPY;
        SCOPED_TRACE(testing::Describe(nested, layout));
        const auto bytes = WriteArray(nested, array, layout);
        const auto read = ReadArray(bytes);
        ASSERT_TRUE(read->type()->Equals(array->type()));
        for (const bool skips : {false, true}) {
          CheckListPieces(nested, bytes, *read, skips, random);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(ListReader, ReadsWhatArrowReads) {
  std::mt19937_64 random(1);
  for (const NestedCase& nested : Cases()) {
    for (const uint64_t null_percent : {0, 1, 25, 100}) {
      CheckCase(nested, null_percent, nested.list_size > 20 ? 60 : 300, &random);
      if (HasFailure()) return;
    }
  }
}

Status ReadOnce(const std::shared_ptr<arrow::Buffer>& bytes, const ColumnSpec& spec,
                int64_t rows) {
  OpenedLeaf file(bytes, 0);
  ARROW_ASSIGN_OR_RAISE(auto reader, MakeFixedReader(file.Chunk(), &spec));
  const int64_t row_bytes = spec.list_size * ItemSize(spec.dtype);
  std::vector<uint8_t> out(static_cast<size_t>(rows * row_bytes));
  return reader->Read(rows, out.data(), row_bytes, nullptr);
}

TEST(ListReader, ListsOfAnotherSizeAreErrors) {
  std::mt19937_64 random(2);
  for (const uint64_t null_percent : {0, 20}) {
    const NestedCase nested = Case(arrow::fixed_size_list(arrow::int32(), 4), 4);
    const auto array =
        RandomArray(nested, 100, RandomLists{.null_percent = null_percent}, &random);
    const auto bytes = WriteArray(nested, array, NestedLayout{});
    ColumnSpec spec = ListSpecOf(nested);
    EXPECT_TRUE(ReadOnce(bytes, spec, 100).ok());
    for (const int64_t list_size : {1, 2, 3, 5, 8}) {
      spec.list_size = list_size;
      const Status status = ReadOnce(bytes, spec, 100);
      EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile) << status.ToString();
      if (null_percent == 0) {
        EXPECT_EQ(status.message().find("Expected lists of " + std::to_string(list_size) +
                                        " elements, got one of 4"),
                  0U)
            << status.message();
      }
    }
  }
}

TEST(ListReader, EmptyListsAreErrors) {
  const NestedCase nested = Case(arrow::list(arrow::int32()), 2);
  auto builder = *arrow::MakeBuilder(nested.type);
  auto* lists = static_cast<arrow::ListBuilder*>(builder.get());
  PARQUET_THROW_NOT_OK(lists->AppendEmptyValue());
  const auto bytes = WriteArray(nested, *builder->Finish(), NestedLayout{});
  const Status status = ReadOnce(bytes, ListSpecOf(nested), 1);
  EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
  EXPECT_EQ(status.message(), "Expected lists of 2 elements, got one of 0");
}

TEST(ListReader, NullsWithoutFillAreErrors) {
  const NestedCase nested = Case(arrow::fixed_size_list(arrow::int32(), 2), 2);
  auto builder = *arrow::MakeBuilder(nested.type);
  auto* lists = static_cast<arrow::FixedSizeListBuilder*>(builder.get());
  PARQUET_THROW_NOT_OK(lists->Append());
  PARQUET_THROW_NOT_OK(lists->value_builder()->AppendNulls(2));
  PARQUET_THROW_NOT_OK(lists->AppendNull());
  const auto bytes = WriteArray(nested, *builder->Finish(), NestedLayout{});
  ColumnSpec spec = ListSpecOf(nested);
  EXPECT_TRUE(ReadOnce(bytes, spec, 2).ok());
  spec.fill = std::nullopt;
  EXPECT_EQ(KindOf(ReadOnce(bytes, spec, 1)), ErrorKind::kNullValue);
  spec = ListSpecOf(nested);
  spec.null_lists = false;
  EXPECT_TRUE(ReadOnce(bytes, spec, 1).ok());
  EXPECT_EQ(KindOf(ReadOnce(bytes, spec, 2)), ErrorKind::kNullValue);
}

TEST(ListReader, FlatColumnsAreUnsupported) {
  NestedCase nested = Case(arrow::int32(), 2);
  std::mt19937_64 random(3);
  const auto array = RandomArray(nested, 10, RandomLists{}, &random);
  const auto bytes = WriteArray(nested, array, NestedLayout{});
  EXPECT_EQ(KindOf(ReadOnce(bytes, ListSpecOf(nested), 1)), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace fastload
