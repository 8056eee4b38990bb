#include "fastload/base/block_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace fastload {
namespace {

TEST(BlockMemory, ReusesFreedMemoryOfTheSameSizeClass) {
  BlockPool pool(MakePrivateMemory(), int64_t{16} << 20);
  BlockMemory memory(&pool);
  uint8_t* first = nullptr;
  ASSERT_TRUE(memory.Allocate(100'000, 64, &first).ok());
  memory.Free(first, 100'000, 64);
  uint8_t* second = nullptr;
  ASSERT_TRUE(memory.Allocate(99'000, 64, &second).ok());
  EXPECT_EQ(second, first);
  EXPECT_EQ(pool.stats().mapped_total, 1);
  EXPECT_EQ(memory.bytes_allocated(), 99'000);
  EXPECT_EQ(memory.num_allocations(), 2);
  memory.Free(second, 99'000, 64);
  EXPECT_EQ(memory.bytes_allocated(), 0);
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

TEST(BlockMemory, ReallocatesWithTheContent) {
  BlockPool pool(MakePrivateMemory(), 0);
  BlockMemory memory(&pool);
  uint8_t* data = nullptr;
  ASSERT_TRUE(memory.Allocate(0, 64, &data).ok());
  ASSERT_TRUE(memory.Reallocate(0, 5000, 64, &data).ok());
  std::memset(data, 7, 5000);
  uint8_t* const before = data;
  ASSERT_TRUE(memory.Reallocate(5000, 5001, 64, &data).ok());
  EXPECT_EQ(data, before);  // the size class has room
  ASSERT_TRUE(memory.Reallocate(5001, 500'000, 64, &data).ok());
  EXPECT_EQ(data[0], 7);
  EXPECT_EQ(data[4999], 7);
  ASSERT_TRUE(memory.Reallocate(500'000, 10, 64, &data).ok());
  EXPECT_EQ(data[9], 7);
  memory.Free(data, 10, 64);
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

TEST(BlockMemory, RefusesOtherSizesAndAlignments) {
  BlockPool pool(MakePrivateMemory(), 0);
  BlockMemory memory(&pool);
  uint8_t* data = nullptr;
  EXPECT_TRUE(memory.Allocate(-1, 64, &data).IsInvalid());
  EXPECT_TRUE(memory.Allocate(10, 4096, &data).IsInvalid());
}

}  // namespace
}  // namespace fastload
