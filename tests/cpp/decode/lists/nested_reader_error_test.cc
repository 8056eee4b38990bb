#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fastload/decode/lists/nested_reader.h"
#include "nested_cases.h"
#include "nested_file.h"

namespace fastload {
namespace {

using testing::NestedCase;
using testing::NestedCases;
using testing::NestedLayout;
using testing::OpenedLeaf;
using testing::RandomArray;
using testing::RandomLists;
using testing::SpecOf;
using testing::WriteArray;

Status ReadOnce(const NestedCase& nested, const std::shared_ptr<arrow::Buffer>& bytes,
                const ColumnSpec& spec, int64_t rows) {
  OpenedLeaf file(bytes, nested.path.empty() ? 0 : nested.path.back());
  ARROW_ASSIGN_OR_RAISE(auto reader, NestedReader::Make(file.Chunk(), &spec));
  NestedRows out;
  return reader->Read(rows, &out, /*valid=*/true);
}

TEST(NestedReaderErrors, NullsWithoutFillAreErrors) {
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
            "Expected no null, got one (write fill= or valid=True for this column, or "
            "nulls=\"nan\" (for floats), \"zero\" or \"mask\" for all; with Pack, "
            "fill= or nulls=\"zero\")");
  spec = SpecOf(nested);
  spec.null_lists = false;
  EXPECT_TRUE(ReadOnce(nested, bytes, spec, 1).ok());
  const Status list = ReadOnce(nested, bytes, spec, 2);
  EXPECT_EQ(KindOf(list), ErrorKind::kNullValue);
  EXPECT_EQ(list.message(),
            "Expected no null list, got one (write fill= or valid=True for this column, "
            "or nulls=\"zero\" or \"mask\" for all; with Pack, fill= or "
            "nulls=\"zero\")");
}

TEST(NestedReaderErrors, ListsOfAnotherSizeAreErrors) {
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

TEST(NestedReaderErrors, MoreRowsThanThereAreIsAnError) {
  std::mt19937_64 random(6);
  const NestedCase nested{"list<int32>", arrow::list(arrow::int32()), {}};
  const auto bytes =
      WriteArray(nested, RandomArray(nested, 10, RandomLists{}, &random), NestedLayout{});
  const ColumnSpec spec = SpecOf(nested);
  EXPECT_EQ(KindOf(ReadOnce(nested, bytes, spec, 11)), ErrorKind::kCorruptFile);
}

TEST(NestedReaderErrors, ListsOfAnotherDepthAreUnsupported) {
  std::mt19937_64 random(8);
  const NestedCase nested{
      "list<list<int32>>", arrow::list(arrow::list(arrow::int32())), {}, 2};
  const auto bytes =
      WriteArray(nested, RandomArray(nested, 10, RandomLists{}, &random), NestedLayout{});
  ColumnSpec spec = SpecOf(nested);
  EXPECT_TRUE(ReadOnce(nested, bytes, spec, 10).ok());
  spec.list_size = 2;
  Status status = ReadOnce(nested, bytes, spec, 10);
  EXPECT_EQ(KindOf(status), ErrorKind::kUnsupported);
  EXPECT_EQ(status.message(),
            "Expected a column of lists in lists, 3 or more deep, got 2 deep");
  spec.list_size = 0;
  spec.depth = 1;
  status = ReadOnce(nested, bytes, spec, 10);
  EXPECT_EQ(KindOf(status), ErrorKind::kUnsupported);
  EXPECT_EQ(status.message(), "Expected a column of lists in lists, 1 deep, got 2 deep");
}

TEST(NestedReaderErrors, DamagedBytesAreErrorsOrValues) {
  std::mt19937_64 random(7);
  for (const NestedCase& nested : NestedCases()) {
    const auto array = RandomArray(nested, 300, RandomLists{}, &random);
    const ColumnSpec spec = SpecOf(nested);
    for (int trial = 0; trial < 24; ++trial) {
      NestedLayout layout;
      layout.v2_pages = trial % 2 == 0;
      layout.dictionary = trial % 4 < 2;
      layout.page_bytes = 600;
      const auto bytes = WriteArray(nested, array, layout);
      auto damaged = *bytes->CopySlice(0, bytes->size());
      // Only pages are damaged; the footer and its length are unchanged.
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
