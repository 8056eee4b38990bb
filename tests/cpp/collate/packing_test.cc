// Tests of packing beside first principles; Python compares it with its definition.
#include "fastload/collate/packing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "fastload/collate/token_batches.h"

namespace fastload {
namespace {

TEST(BestFit, TakesTheLeastRoomThatSuffices) {
  // 6 and 5 open bins with room for 4 and 5; 4 fits the former exactly, 3 the latter.
  EXPECT_EQ(BestFit(std::vector<uint32_t>{3, 6, 5, 4}, 10),
            (PlanArray<int32_t>{1, 0, 1, 0}));
  EXPECT_TRUE(BestFit({}, 10).empty());
  EXPECT_EQ(BestFit(std::vector<uint32_t>{1, 1, 1}, 1), (PlanArray<int32_t>{0, 1, 2}));
}

TEST(PackWindow, RowsAreFullAndHoldEachElementOnce) {
  const std::vector<uint32_t> lengths = {3, 25, 1, 10, 7, 7, 2, 30, 10, 4};
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0U);
  for (const std::optional<uint64_t> key : {std::optional<uint64_t>{}, {7}}) {
    const PackedRows rows =
        PackWindow({.rows = order, .kept = lengths, .lengths = lengths}, 10, key);
    std::vector<std::vector<int>> seen;
    for (const uint32_t length : lengths) seen.emplace_back(length);
    ASSERT_EQ(rows.edges.front(), 0);
    ASSERT_EQ(rows.edges.back(), static_cast<int64_t>(rows.segments.size()));
    for (size_t row = 0; row + 1 < rows.edges.size(); ++row) {
      uint32_t filled = 0;
      for (auto s = rows.edges[row]; s < rows.edges[row + 1]; ++s) {
        const Segment& segment = rows.segments[static_cast<size_t>(s)];
        filled += segment.size;
        if (segment.row == Segment::kPadding) {
          EXPECT_EQ(s + 1, rows.edges[row + 1]);  // at the row's end
          continue;
        }
        EXPECT_EQ(segment.length, lengths[segment.row]);
        for (uint32_t i = 0; i < segment.size; ++i) {
          ++seen[segment.row][segment.first + i];
        }
      }
      EXPECT_EQ(filled, 10);
    }
    for (const auto& document : seen) {
      EXPECT_EQ(document, std::vector<int>(document.size(), 1));
    }
  }
}

TEST(BatchWindows, LikeLengthsAreTogetherWherePaddingCounts) {
  const std::vector<uint32_t> lengths = {1, 9, 2, 8, 1, 30};
  const std::vector<int64_t> edges = {0, 6};
  DocumentWindows windows{
      .kept = lengths, .lengths = lengths, .edges = edges, .first = 0, .stop = 6};
  const auto in_order = BatchWindows(windows, {10, false, INT64_MAX});
  EXPECT_EQ(in_order.sizes, (std::vector<int64_t>{2, 2, 1, 1}));
  EXPECT_TRUE(in_order.orders.empty());
  const auto padded = BatchWindows(windows, {20, true, INT64_MAX});
  EXPECT_EQ(padded.sizes, (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(padded.orders, (PlanArray<uint32_t>{0, 2, 4, 1, 3, 5}));
  windows.first = 2;  // rows 0 and 1 keep their places
  windows.stop = 5;
  const auto some = BatchWindows(windows, {20, true, 2});
  EXPECT_EQ(some.sizes, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(some.orders, (PlanArray<uint32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(SplitWindow, CutsWhereDocumentsAndRowsEnd) {
  const std::vector<uint32_t> lengths = {3, 0, 9, 4};
  const std::vector<uint32_t> order = {3, 1, 0, 2};
  const Documents documents{.rows = order, .kept = lengths, .lengths = lengths};
  // Rows end every 5 elements from 2 elements before the first document on.
  const auto segments = SplitWindow(documents, 5, 2, 1, 14);
  std::vector<std::vector<uint32_t>> found;
  for (const Segment& s : segments) found.push_back({s.row, s.first, s.size, s.length});
  EXPECT_EQ(found, (std::vector<std::vector<uint32_t>>{{3, 1, 2, 4},
                                                       {3, 3, 1, 4},
                                                       {0, 0, 3, 3},
                                                       {2, 0, 1, 9},
                                                       {2, 1, 5, 9},
                                                       {2, 6, 1, 9}}));
  EXPECT_TRUE(SplitWindow(documents, 5, 2, 7, 7).empty());
}

}  // namespace
}  // namespace fastload
