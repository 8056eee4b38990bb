#include "fastload/base/spare_pieces.h"

#include <gtest/gtest.h>

#include <array>

#include "faults/failing_new.h"

namespace fastload {
namespace {

TEST(SparePieces, KeepsByCapacityAndGivesTheLargestAway) {
  std::array<uint8_t, 3> memory{};
  SparePieces spare;
  EXPECT_EQ(spare.Take(64), nullptr);
  EXPECT_EQ(spare.TakeLargest().data, nullptr);
  for (const int64_t capacity : {64, 64, 128}) spare.Announce(capacity);
  spare.Keep({&memory[0], 64});
  spare.Keep({&memory[1], 128});
  spare.Keep({&memory[2], 64});
  EXPECT_EQ(spare.bytes(), 256);
  EXPECT_EQ(spare.Take(64), &memory[2]);
  EXPECT_EQ(spare.Take(100), nullptr);
  const auto largest = spare.TakeLargest();
  EXPECT_EQ(largest.data, &memory[1]);
  EXPECT_EQ(largest.capacity, 128);
  EXPECT_EQ(spare.Take(128), nullptr);
  EXPECT_EQ(spare.TakeLargest().data, &memory[0]);
  EXPECT_EQ(spare.bytes(), 0);
}

TEST(SparePieces, KeepingTakesNoMemory) {
  SparePieces spare;
  uint8_t memory = 0;
  for (int64_t i = 0; i < 1000; ++i) spare.Announce(4096 << i % 3);
  const testing::FailingNew failing(0, testing::FailingNew::kAllFrom);
  for (int64_t i = 0; i < 1000; ++i) spare.Keep({&memory, 4096 << i % 3});
  while (spare.TakeLargest().data != nullptr) {
  }
  EXPECT_EQ(failing.calls(), 0);
}

}  // namespace
}  // namespace fastload
