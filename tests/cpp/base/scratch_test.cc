#include "fastload/base/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "fastload/base/memory.h"

namespace fastload {
namespace {

TEST(Scratch, GrowsAndIsAligned) {
  Scratch scratch;
  EXPECT_NE(scratch.Get(Scratch::kRows, 0), nullptr);
  uint8_t* small = scratch.Get(Scratch::kRows, 100);
  ASSERT_NE(small, nullptr);
  std::memset(small, 1, 100);
  uint8_t* other = scratch.Get(Scratch::kBlock, 5000);
  std::memset(other, 2, 5000);
  uint8_t* large = scratch.Get(Scratch::kRows, 100'001);
  std::memset(large, 3, 100'001);
  for (const uint8_t* data : {small, other, large}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kAlignment, 0);
  }
  EXPECT_EQ(scratch.Get(Scratch::kRows, 50), large);
  EXPECT_EQ(scratch.Get(Scratch::kBlock, 5000), other);
  EXPECT_EQ(other[4999], 2);
}

}  // namespace
}  // namespace fastload
