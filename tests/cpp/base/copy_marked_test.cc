#include "fastload/base/copy_marked.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace fastload {
namespace {

constexpr int64_t kMarkedWidths[] = {1, 2, 3, 4, 8, 12, 16, 20};

// Returns marks of `words` words, of which about `share` are set.
std::vector<uint64_t> MakeMarks(int64_t words, double share, std::mt19937* random) {
  std::bernoulli_distribution mark(share);
  std::vector<uint64_t> marks(static_cast<size_t>(words));
  for (uint64_t& word : marks) {
    for (int bit = 0; bit < 64; ++bit) word |= uint64_t{mark(*random)} << bit;
  }
  return marks;
}

std::vector<int64_t> MarkedRows(const std::vector<uint64_t>& marks) {
  std::vector<int64_t> rows;
  for (size_t row = 0; row < marks.size() * 64; ++row) {
    if ((marks[row / 64] >> row % 64 & 1) != 0) rows.push_back(static_cast<int64_t>(row));
  }
  return rows;
}

TEST(CopyMarked, EqualsAPlainLoop) {
  std::mt19937 random(1);
  for (const int64_t width : kMarkedWidths) {
    for (const int64_t gap : {0, 4}) {
      for (const double share : {0.0, 0.03, 0.5, 0.9, 1.0}) {
        for (const int64_t words : {1, 2, 7, 16}) {
          const std::vector<uint64_t> marks = MakeMarks(words, share, &random);
          const std::vector<int64_t> rows = MarkedRows(marks);
          std::vector<uint8_t> from(static_cast<size_t>(words * 64 * width));
          std::ranges::generate(from, [&] { return static_cast<uint8_t>(random()); });
          const auto all = static_cast<int64_t>(rows.size());
          for (const int64_t marked : {all, all / 2, all - all % 16}) {
            const int64_t stride = width + gap;
            // No byte behind the last row is written.
            std::vector<uint8_t> expected(static_cast<size_t>(marked * stride + 80),
                                          0xEE);
            std::vector<uint8_t> out = expected;
            for (int64_t i = 0; i < marked; ++i) {
              std::memcpy(expected.data() + i * stride,
                          from.data() + rows[static_cast<size_t>(i)] * width,
                          static_cast<size_t>(width));
            }
            CopyMarked(from.data(), width, marks.data(), marked, out.data(), stride);
            ASSERT_EQ(out, expected) << width << " " << stride << " " << share << " "
                                     << words << " " << marked;
            if (stride != width) continue;
            std::vector<uint8_t> own = from;
            CopyMarked(own.data(), width, marks.data(), marked, own.data(), width);
            own.resize(static_cast<size_t>(marked * width));
            expected.resize(own.size());
            ASSERT_EQ(own, expected)
                << "in place: " << width << " " << share << " " << words << " " << marked;
          }
        }
      }
    }
  }
}

TEST(CountMarks, CountsTheMarksInFront) {
  std::mt19937 random(2);
  const std::vector<uint64_t> marks = MakeMarks(3, 0.5, &random);
  const std::vector<int64_t> rows = MarkedRows(marks);
  for (int64_t end = 0; end <= 192; ++end) {
    EXPECT_EQ(CountMarks(marks.data(), end),
              std::ranges::lower_bound(rows, end) - rows.begin());
  }
}

}  // namespace
}  // namespace fastload
