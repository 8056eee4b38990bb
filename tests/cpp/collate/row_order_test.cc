#include "fastload/collate/row_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace fastload {
namespace {

TEST(RowOrder, HasTheRowsOfItsTakes) {
  Shuffle shuffle;
  MakeShuffle(7, 40'000, &shuffle);
  const Shuffle::Numbers& row_at = shuffle.rows;
  const std::vector<Take> takes = {{5, 9}, {39'990, 40'000}, {39'999, 40'000}};
  RowOrder order{.rows = RowsOf(shuffle, takes)};
  std::vector<uint32_t> expected(row_at.begin() + 5, row_at.begin() + 9);
  expected.insert(expected.end(), row_at.begin() + 39'990, row_at.end());
  expected.push_back(row_at.back());
  EXPECT_EQ(std::vector<uint32_t>(order.rows.begin(), order.rows.end()), expected);

  FindOutputs(shuffle, takes, &order);
  ASSERT_EQ(order.outputs.size(), 40'000);
  int64_t taken = 0;
  for (uint32_t row = 0; row < 40'000; ++row) {
    if (order.outputs[row] == RowOrder::kNone) continue;
    EXPECT_EQ(order.rows[order.outputs[row]], row);
    ++taken;
  }
  EXPECT_EQ(taken, 14);
  ASSERT_EQ(order.repeats.size(), 1);
  EXPECT_EQ(order.repeats[0].from, 13);
  EXPECT_EQ(order.repeats[0].to, 14);
}

}  // namespace
}  // namespace fastload
