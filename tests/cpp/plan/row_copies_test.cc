#include "fastload/plan/row_copies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include "faults/failing_new.h"

namespace fastload {
namespace {

std::vector<uint32_t> RowsOf(GroupCopies* group) {
  std::vector<uint32_t> rows;
  for (CopiesWalk walk(group->rows()); !walk.done(); walk.Skip(1)) {
    rows.push_back(static_cast<uint32_t>(walk.row()));
  }
  return rows;
}

TEST(CopiesByGroup, AGroupLivesAsLongAsItIsUsed) {
  const std::vector<uint16_t> counts = {1, 0, 2, 9, 0, 1};
  const std::span<const uint16_t> all(counts);
  CopiesByGroup copies;
  std::shared_ptr<GroupCopies> first = copies.Of(all.first(3));
  std::shared_ptr<GroupCopies> second = copies.Of(all.subspan(3));
  EXPECT_EQ(copies.Of(all.first(3)), first);
  EXPECT_EQ(RowsOf(first.get()), (std::vector<uint32_t>{0, 2, 2}));
  EXPECT_EQ(RowsOf(second.get()), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 2}));
  const std::weak_ptr<GroupCopies> seen = first;
  first.reset();
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(RowsOf(copies.Of(all.first(3)).get()), (std::vector<uint32_t>{0, 2, 2}));
}

TEST(CopiesByGroup, RowsAreTheSameAfterACallWithoutMemory) {
  const std::vector<uint16_t> counts = {1, 0, 2};
  int64_t failed = 0;
  for (int64_t call = 0; failed == call; ++call) {
    CopiesByGroup copies;
    const std::shared_ptr<GroupCopies> group = copies.Of(counts);
    try {
      const testing::FailingNew failing(call, testing::FailingNew::kOne);
      group->rows();
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    EXPECT_EQ(group->rows().count, 3);
    EXPECT_EQ(RowsOf(group.get()), (std::vector<uint32_t>{0, 2, 2}));
  }
  EXPECT_GT(failed, 0);
}

TEST(CopiesByGroup, ThreadsSeeTheSameRows) {
  std::vector<uint16_t> counts(100'000);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<uint16_t>(i % 3);
  CopiesByGroup copies;
  std::vector<std::vector<uint32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& rows : found) {
    threads.emplace_back([&] { rows = RowsOf(copies.Of(counts).get()); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < counts.size(); ++i) {
    expected.insert(expected.end(), counts[i], static_cast<uint32_t>(i));
  }
  for (const auto& rows : found) EXPECT_EQ(rows, expected);
}

// Row groups of several stretches: rows around the edges of stretches have none, one or
// many copies, and whole stretches have no copies.
TEST(CopiesWalk, RowsOfAllStretchesComeBack) {
  constexpr auto kStretch = static_cast<size_t>(RowCopies::kStretchRows);
  std::vector<uint16_t> counts(5 * kStretch + 3, 0);
  for (size_t row = kStretch - 700; row < kStretch + 9; ++row) counts[row] = 1;
  counts[kStretch - 1] = 30;
  counts[kStretch] = 30;
  for (size_t row = 4 * kStretch - 1; row < counts.size(); row += 2) counts[row] = 3;
  std::vector<uint32_t> expected;
  for (size_t row = 0; row < counts.size(); ++row) {
    expected.insert(expected.end(), counts[row], static_cast<uint32_t>(row));
  }
  GroupCopies group(counts);
  EXPECT_EQ(RowsOf(&group), expected);
  for (const size_t row :
       {size_t{5}, kStretch - 701, kStretch - 1, kStretch, kStretch + 9, 2 * kStretch,
        4 * kStretch - 1, counts.size() - 1}) {
    EXPECT_EQ(group.rows().Has(static_cast<int64_t>(row)), counts[row] > 0) << row;
  }
  for (const int64_t most : {1, 7, 1000, 1 << 20}) {
    CopiesWalk walk(group.rows());
    std::vector<uint32_t> rows;
    for (bool back = true; !walk.done(); back = !back) {
      CopiesWalk::Span span = walk.Next(most, CopiesWalk::kBlockRows, /*gaps=*/true);
      ASSERT_GT(span.copies, 0);
      // The reader of codes returns copies that have no codes.
      if (back && span.copies > 1) {
        walk.Return(1);
        --span.copies;
      }
      for (int64_t i = 0; i < span.copies; ++i) {
        const int64_t at = span.single ? i : span.positions[i] - span.positions[0];
        rows.push_back(static_cast<uint32_t>(span.row + at));
      }
    }
    EXPECT_EQ(rows, expected) << most;
  }
}

// Runs of single rows of every length, before rows with none or two copies.
TEST(CopiesWalk, RunsOfSingleRowsEndWhereTheyEnd) {
  for (const uint16_t other : {0, 2}) {
    for (int64_t run = 1; run < 400; run += run < 60 ? 1 : 37) {
      std::vector<uint16_t> counts(static_cast<size_t>(run), 1);
      counts.push_back(other);
      counts.resize(static_cast<size_t>(run + 20), 1);
      GroupCopies group(counts);
      const std::vector<uint32_t> expected = RowsOf(&group);
      CopiesWalk walk(group.rows());
      std::vector<uint32_t> rows;
      while (!walk.done()) {
        const CopiesWalk::Span span =
            walk.Next(1000, CopiesWalk::kBlockRows, /*gaps=*/true);
        for (int64_t i = 0; i < span.copies; ++i) {
          const int64_t at = span.single ? i : span.positions[i] - span.positions[0];
          rows.push_back(static_cast<uint32_t>(span.row + at));
        }
      }
      EXPECT_EQ(rows, expected) << run << " " << other;
    }
  }
}

}  // namespace
}  // namespace fastload
