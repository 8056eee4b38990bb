#include "fastload/plan/row_copies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace fastload {
namespace {

std::vector<uint32_t> RowsOf(GroupCopies* group) {
  const RowCopies copies = group->rows();
  return {copies.rows, copies.rows + copies.count};
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
  AppendRowsOfCopies(counts, &expected);
  for (const auto& rows : found) EXPECT_EQ(rows, expected);
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
      std::vector<uint16_t> positions(CopiesWalk::kBlockCopies);
      std::vector<uint32_t> rows;
      while (!walk.done()) {
        const CopiesWalk::Span span =
            walk.Next(1000, CopiesWalk::kBlockRows, /*gaps=*/true, positions.data());
        for (int64_t i = 0; i < span.copies; ++i) {
          const int64_t at = span.single ? i : positions[static_cast<size_t>(i)];
          rows.push_back(static_cast<uint32_t>(span.row + at));
        }
      }
      EXPECT_EQ(rows, expected) << run << " " << other;
    }
  }
}

}  // namespace
}  // namespace fastload
