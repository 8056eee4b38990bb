#include "fastload/plan/row_numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace fastload {
namespace {

using Place = std::pair<int64_t, int64_t>;  // row group, stored row

// Row groups 0 and 3 have all 5 rows; of row group 1 the rows 1, 2 and 65 are selected;
// row group 2 has no rows.
struct Groups {
  const std::vector<uint64_t> bits = {0b110, 0b10};

  RowBits Of(int32_t row_group) const {
    if (row_group == 1) return {reinterpret_cast<const uint8_t*>(bits.data()), 100};
    return {nullptr, row_group == 2 ? 0 : 5};
  }
  const std::vector<Place> places = {{0, 0}, {0, 1}, {0, 2},  {0, 3}, {0, 4},
                                     {1, 1}, {1, 2}, {1, 65}, {3, 0}, {3, 1},
                                     {3, 2}, {3, 3}, {3, 4}};
};

Result<ReadPlan> PlanOf(const Groups& groups, const std::vector<int64_t>& indices) {
  ARROW_ASSIGN_OR_RAISE(const RowNumbers numbers,
                        RowNumbers::Make({0, 0, 0, 0}, {0, 1, 2, 3}, {5, 3, 0, 5}));
  EXPECT_EQ(numbers.rows(), 13);
  return numbers.Plan(indices, [&](int32_t, int32_t group) { return groups.Of(group); });
}

// Returns the rows that the plan delivers, by the definition of a plan.
std::vector<Place> Delivered(const ReadPlan& plan) {
  std::vector<Place> window;
  for (const Piece& piece : plan.pieces) {
    EXPECT_EQ(piece.start, 0);
    for (int64_t i = 0; i < piece.stop; ++i) {
      window.push_back(
          {piece.row_group, plan.numbers[static_cast<size_t>(piece.numbers + i)]});
    }
  }
  std::vector<Place> rows;
  for (const Take& take : plan.takes) {
    rows.insert(rows.end(), window.begin() + take.start, window.begin() + take.stop);
  }
  return rows;
}

TEST(RowNumbers, PlansTheRowsInTheirOrder) {
  const Groups groups;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> indices(1 + random() % 20);
    std::vector<Place> expected;
    for (int64_t& index : indices) {
      index = static_cast<int64_t>(random() % 13);
      expected.push_back(groups.places[static_cast<size_t>(index)]);
    }
    const auto plan = PlanOf(groups, indices);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(Delivered(*plan), expected);
    EXPECT_EQ(plan->rows, static_cast<int64_t>(indices.size()));
  }
}

TEST(RowNumbers, AscendingRowsNeedNoOrder) {
  const Groups groups;
  const auto plan = PlanOf(groups, {2, 5, 7, 8});
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->shuffled);
  EXPECT_EQ(plan->pieces.size(), 3);
  EXPECT_EQ(Delivered(*plan), (std::vector<Place>{{0, 2}, {1, 1}, {1, 65}, {3, 0}}));
}

TEST(RowNumbers, RefusesWhatDoesNotExist) {
  const Groups groups;
  for (const std::vector<int64_t>& wrong :
       std::vector<std::vector<int64_t>>{{}, {-1}, {0, 13}}) {
    EXPECT_FALSE(PlanOf(groups, wrong).ok());
  }
  EXPECT_FALSE(RowNumbers::Make({0}, {0}, {1, 2}).ok());
  EXPECT_FALSE(RowNumbers::Make({0}, {0}, {-1}).ok());
}

}  // namespace
}  // namespace fastload
