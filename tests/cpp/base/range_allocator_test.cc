#include "fastload/base/range_allocator.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <vector>

namespace fastload {
namespace {

TEST(RangeAllocator, FirstFitFromTheFront) {
  RangeAllocator ranges(64, 1064, 4096);
  EXPECT_EQ(ranges.Allocate(100), 64);
  EXPECT_EQ(ranges.Allocate(200), 164);
  EXPECT_EQ(ranges.Allocate(700), 364);
  EXPECT_EQ(ranges.Allocate(1), -1);
  ranges.Free(164);
  EXPECT_EQ(ranges.Allocate(201), -1);
  EXPECT_EQ(ranges.Allocate(50), 164);
  EXPECT_EQ(ranges.Allocate(150), 214);
}

TEST(RangeAllocator, WhatIsGivenBackIsJoined) {
  for (const std::vector<int>& order :
       {std::vector{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}}) {
    RangeAllocator ranges(0, 300, 4096);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ranges.Allocate(100), i * 100);
    for (const int i : order) ranges.Free(i * 100);
    EXPECT_EQ(ranges.Allocate(300), 0);
  }
}

TEST(RangeAllocator, NothingIsGivenTwiceAndNothingIsLost) {
  constexpr int64_t kBytes = 10'000;
  constexpr int64_t kSegment = 700;
  std::mt19937 random(7);
  RangeAllocator ranges(0, kBytes, kSegment);
  std::map<int64_t, int64_t> used;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % 900);
      const int64_t start = ranges.Allocate(bytes);
      if (start < 0) continue;
      ASSERT_LE(start + bytes, kBytes);
      if (bytes <= kSegment) {
        ASSERT_EQ(start / kSegment, (start + bytes - 1) / kSegment);
      }
      const auto after = used.emplace(start, start + bytes).first;
      if (after != used.begin()) {
        ASSERT_LE(std::prev(after)->second, start);
      }
      if (std::next(after) != used.end()) {
        ASSERT_GE(std::next(after)->first, start + bytes);
      }
    } else if (!used.empty()) {
      const auto one = std::next(used.begin(), random() % used.size());
      ranges.Free(one->first);
      used.erase(one);
    }
  }
  for (const auto& [start, end] : used) ranges.Free(start);
  EXPECT_EQ(ranges.Allocate(kBytes), 0);
}

TEST(RangeAllocator, RangesLieInOneSegmentIfTheyFit) {
  RangeAllocator ranges(10, 400, 100);
  EXPECT_EQ(ranges.Allocate(95), 100);
  EXPECT_EQ(ranges.Allocate(90), 10);
  EXPECT_EQ(ranges.Allocate(120), 195);  // fits into no segment
  EXPECT_EQ(ranges.Allocate(80), 315);
  EXPECT_EQ(ranges.Allocate(10), -1);
  EXPECT_EQ(ranges.Allocate(5), 395);
}

TEST(RangeAllocator, NothingOfNothing) {
  RangeAllocator ranges(10, 10, 64);
  EXPECT_EQ(ranges.Allocate(1), -1);
}

}  // namespace
}  // namespace fastload
