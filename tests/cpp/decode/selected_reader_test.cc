#include "fastload/decode/selected_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "column_file.h"
#include "fastload/base/copy_marked.h"
#include "fastload/decode/chunk_reader.h"

namespace fastload {
namespace {

using testing::ColumnData;
using testing::ColumnLayout;
using testing::LeafNode;
using testing::OpenedColumn;
using testing::WriteColumn;

constexpr int64_t kSelectRows = 6000;

ColumnSpec SelectSpec() {
  ColumnSpec spec;
  spec.name = "column";
  spec.dtype = DType::kInt64;
  spec.fill = std::string("\x07\0\0\0\0\0\0\0", 8);
  return spec;
}

// A column of int64 values of `kinds` kinds, in pages of several sizes; 7 stands for a
// null.
struct SelectColumn {
  SelectColumn(int64_t kinds, bool dictionary, bool nulls, std::mt19937* random) {
    ColumnData<parquet::Int64Type> data;
    for (int64_t row = 0; row < kSelectRows; ++row) {
      const bool present = !nulls || row % 3000 < 2000 || (*random)() % 4 != 0;
      const auto value = 100 + static_cast<int64_t>((*random)() % kinds);
      data.valid.push_back(present ? 1 : 0);
      if (present) data.values.push_back(value);
      values.push_back(present ? value : 7);
    }
    valid = data.valid;
    ColumnLayout layout;
    layout.dictionary = dictionary;
    layout.page_bytes = (*random)() % 2 == 0 ? 700 : 9000;
    bytes = WriteColumn<parquet::Int64Type>(LeafNode(parquet::Type::INT64), data, layout);
  }

  std::vector<int64_t> values;
  std::vector<uint8_t> valid;
  std::shared_ptr<arrow::Buffer> bytes;
};

// Marks about `tenths` rows of ten.
std::vector<uint64_t> SelectMarks(uint64_t tenths, std::mt19937* random) {
  std::vector<uint64_t> marks(kSelectRows / 64 + 1);
  for (int64_t row = 0; row < kSelectRows; ++row) {
    if ((*random)() % 10 < tenths) marks[row / 64] |= uint64_t{1} << row % 64;
  }
  return marks;
}

TEST(SelectedReader, ReadsTheSelectedRows) {
  std::mt19937 random(1);
  const ColumnSpec spec = SelectSpec();
  for (const int64_t kinds : {1, 20, 100'000}) {
    for (const bool dictionary : {false, true}) {
      for (const bool nulls : {false, true}) {
        const SelectColumn column(kinds, dictionary, nulls, &random);
        for (const uint64_t tenths : {1, 5, 9}) {
          const auto marks = SelectMarks(tenths, &random);
          std::vector<int64_t> expected;
          std::vector<uint8_t> expected_valid;
          for (int64_t row = 0; row < kSelectRows; ++row) {
            if ((marks[row / 64] >> row % 64 & 1) == 0) continue;
            expected.push_back(column.values[row]);
            expected_valid.push_back(column.valid[row]);
          }
          OpenedColumn file(column.bytes);
          const RowBits bits{reinterpret_cast<const uint8_t*>(marks.data()), kSelectRows};
          auto reader = MakeSelectedFixedReader(file.Chunk(), &spec, bits).ValueOrDie();
          const auto rows = static_cast<int64_t>(expected.size());
          for (int64_t at = 0; at < rows;) {
            const auto piece =
                std::min<int64_t>(rows - at, 1 + static_cast<int64_t>(random() % 2500));
            const int64_t step = random() % 2 == 0 ? 1 : 3;
            std::vector<int64_t> out(piece * step);
            std::vector<uint8_t> valid(piece, 9);
            ASSERT_TRUE(reader
                            ->Read(piece, reinterpret_cast<uint8_t*>(out.data()),
                                   8 * step, valid.data())
                            .ok());
            for (int64_t i = 0; i < piece; ++i) {
              ASSERT_EQ(out[i * step], expected[at + i]) << "row " << at + i;
              ASSERT_EQ(valid[i], expected_valid[at + i]) << "row " << at + i;
            }
            at += piece;
          }
        }
      }
    }
  }
}

TEST(SelectedReader, DecodesMarkedRowsWithoutNulls) {
  std::mt19937 random(2);
  const ColumnSpec spec = SelectSpec();
  for (const int64_t kinds : {1, 20, 100'000}) {
    for (const bool dictionary : {false, true}) {
      const SelectColumn column(kinds, dictionary, /*nulls=*/false, &random);
      const auto marks = SelectMarks(9, &random);
      OpenedColumn file(column.bytes);
      auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
      // So that pages end between the rows of a word.
      int64_t row = 37;
      ASSERT_TRUE(reader->Skip(row).ok());
      while (row + 64 <= kSelectRows) {
        const int64_t marked = CountMarks(&marks[row / 64], 64);
        std::vector<int64_t> out(64, -1);
        auto* const bytes = reinterpret_cast<uint8_t*>(out.data());
        const int64_t read =
            reader->ReadMarked(64, &marks[row / 64], marked, bytes, 8).ValueOrDie();
        if (read == 0) {
          // The last values of a page with whole values.
          EXPECT_FALSE(dictionary);
          ASSERT_TRUE(reader->Skip(64).ok());
        } else if (read < 64) {
          ASSERT_TRUE(reader->Skip(64 - read).ok());
        }
        int64_t slot = 0;
        for (int64_t i = 0; i < read; ++i) {
          if ((marks[row / 64] >> i & 1) == 0) continue;
          ASSERT_EQ(out[slot++], column.values[row + i]) << "row " << row + i;
        }
        // No row behind the end of a page is written.
        for (; slot < 64; ++slot) ASSERT_EQ(out[slot], -1) << "row " << row;
        row += 64;
      }
    }
  }
}

TEST(SelectedReader, LeavesNullsToRead) {
  std::mt19937 random(3);
  const ColumnSpec spec = SelectSpec();
  for (const bool dictionary : {false, true}) {
    const SelectColumn column(20, dictionary, /*nulls=*/true, &random);
    OpenedColumn file(column.bytes);
    auto reader = MakeFixedReader(file.Chunk(), &spec).ValueOrDie();
    ASSERT_TRUE(reader->Skip(2000).ok());
    const std::vector<uint64_t> marks(1, ~uint64_t{0});
    std::vector<int64_t> out(64);
    auto* const bytes = reinterpret_cast<uint8_t*>(out.data());
    EXPECT_EQ(reader->ReadMarked(64, marks.data(), 64, bytes, 8).ValueOrDie(), 0);
    ASSERT_TRUE(reader->Read(64, bytes, 8, nullptr).ok());
    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], column.values[2000 + i]);
  }
}

}  // namespace
}  // namespace fastload
