#include "fastload/blocks/decoded_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "block_file.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

constexpr int64_t kRows = 3000;

class DecodedReaderTest : public ::testing::Test {
 protected:
  DecodedReaderTest() {
    const std::string path = directory_.File("block");
    testing::WriteBlock(path, "name", {1001, 0, 1, kRows - 1002});
    uint64_t checked = 0;
    block_ = DecodedBlock::Open(path, "name", &checked).block;
  }

  // Walks over all rows: calls skip(rows) for some rows, and read(first, rows) for the
  // others.
  static void Walk(uint32_t seed, const std::function<Status(int64_t)>& skip,
                   const std::function<void(int64_t, int64_t)>& read) {
    std::mt19937 random(seed);
    for (int64_t row = 0; row < kRows;) {
      const int64_t rows = std::min<int64_t>(random() % 700, kRows - row);
      if (random() % 3 == 0) {
        ASSERT_TRUE(skip(rows).ok());
      } else {
        read(row, rows);
      }
      row += rows;
    }
    EXPECT_EQ(KindOf(skip(1)), ErrorKind::kStorage);
  }

  const testing::TemporaryDirectory directory_;
  std::shared_ptr<const DecodedBlock> block_;
};

std::string_view Shown(const ByteView& view) {
  return {reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.size)};
}

TEST_F(DecodedReaderTest, FixedValuesAtAnyStride) {
  const ColumnSpec spec = testing::NumberSpec();
  for (uint32_t seed = 0; seed < 5; ++seed) {
    for (int64_t stride : {8, 24}) {
      const auto reader = *MakeDecodedFixedReader(block_, &spec);
      const auto read = [&](int64_t first, int64_t rows) {
        std::vector<uint8_t> out(static_cast<size_t>(rows * stride), 0xAA);
        std::vector<uint8_t> valid(static_cast<size_t>(rows));
        ASSERT_TRUE(reader->Read(rows, out.data(), stride, valid.data()).ok());
        for (int64_t i = 0; i < rows; ++i) {
          int64_t value = 0;
          std::memcpy(&value, out.data() + i * stride, sizeof(value));
          ASSERT_EQ(value, first + i);
          ASSERT_EQ(valid[static_cast<size_t>(i)], 1);
          if (stride > 8) {
            ASSERT_EQ(out[static_cast<size_t>(i * stride + 8)], 0xAA);
          }
        }
      };
      Walk(seed, [&](int64_t rows) { return reader->Skip(rows); }, read);
    }
  }
}

TEST_F(DecodedReaderTest, ListsOfAFixedSize) {
  const ColumnSpec spec = testing::VectorSpec();
  constexpr int64_t kItem = 3 * sizeof(float);
  for (int64_t stride : {kItem, kItem + 4}) {
    const auto reader = *MakeDecodedFixedReader(block_, &spec);
    const auto read = [&](int64_t first, int64_t rows) {
      std::vector<uint8_t> out(static_cast<size_t>(rows * stride));
      ASSERT_TRUE(reader->Read(rows, out.data(), stride, nullptr).ok());
      for (int64_t i = 0; i < rows; ++i) {
        std::array<float, 3> vector{};
        std::memcpy(vector.data(), out.data() + i * stride, kItem);
        ASSERT_EQ(vector, testing::VectorOf(first + i));
      }
    };
    Walk(7, [&](int64_t rows) { return reader->Skip(rows); }, read);
  }
}

TEST_F(DecodedReaderTest, Texts) {
  const ColumnSpec spec = testing::TextSpec();
  const auto reader = *MakeDecodedBytesReader(block_, &spec);
  ByteArena arena;
  const auto read = [&](int64_t first, int64_t rows) {
    std::vector<ByteView> views(static_cast<size_t>(rows));
    ASSERT_TRUE(reader->Read(rows, views.data(), nullptr, &arena).ok());
    for (int64_t i = 0; i < rows; ++i) {
      ASSERT_EQ(Shown(views[static_cast<size_t>(i)]), testing::TextOf(first + i));
    }
  };
  Walk(3, [&](int64_t rows) { return reader->Skip(rows); }, read);
}

TEST_F(DecodedReaderTest, ListsOfTexts) {
  const ColumnSpec spec = testing::ListSpec();
  const auto reader = *MakeDecodedNestedReader(block_, &spec);
  NestedRows out;
  std::vector<std::vector<std::string>> expected;
  const auto read = [&](int64_t first, int64_t rows) {
    ASSERT_TRUE(reader->Read(rows, &out, true).ok());
    for (int64_t i = 0; i < rows; ++i) expected.push_back(testing::ListOf(first + i));
  };
  Walk(4, [&](int64_t rows) { return reader->Skip(rows); }, read);
  EXPECT_EQ(out.valid, std::vector<uint8_t>(expected.size(), 1));
  ASSERT_EQ(out.offsets.size(), 1);
  ASSERT_EQ(out.offsets[0].size(), expected.size() + 1);
  for (size_t row = 0; row < expected.size(); ++row) {
    std::vector<std::string> list;
    for (int64_t i = out.offsets[0][row]; i < out.offsets[0][row + 1]; ++i) {
      list.emplace_back(Shown(out.views[static_cast<size_t>(i)]));
    }
    ASSERT_EQ(list, expected[row]);
  }
}

TEST_F(DecodedReaderTest, TheBlockLivesAsLongAsItsReaders) {
  const ColumnSpec spec = testing::NumberSpec();
  const auto reader = *MakeDecodedFixedReader(std::move(block_), &spec);
  block_.reset();
  int64_t first = -1;
  ASSERT_TRUE(reader->Read(1, reinterpret_cast<uint8_t*>(&first), 8, nullptr).ok());
  EXPECT_EQ(first, 0);
}

}  // namespace
}  // namespace fastload
