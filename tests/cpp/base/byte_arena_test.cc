#include "fastload/base/byte_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fastload/base/short_copy.h"

namespace fastload {
namespace {

TEST(ByteArena, WhatIsAllocatedStays) {
  BlockPool pool(MakePrivateMemory(), int64_t{64} << 20);
  {
    ByteArena arena(&pool);
    std::vector<uint8_t*> pieces;
    for (int64_t i = 0; i < 3000; ++i) {
      pieces.push_back(arena.Allocate(i).ValueOrDie());
      std::fill_n(pieces.back(), i, static_cast<uint8_t>(i % 251));
    }
    for (int64_t i = 0; i < 3000; ++i) {
      const std::string expected(static_cast<size_t>(i), static_cast<char>(i % 251));
      ASSERT_EQ(std::string(reinterpret_cast<char*>(pieces[static_cast<size_t>(i)]),
                            static_cast<size_t>(i)),
                expected);
    }
    EXPECT_GE(pool.stats().used_bytes, 3000 * 2999 / 2);
  }
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

TEST(ByteArena, KeepsBuffersUntilCleared) {
  std::shared_ptr<arrow::Buffer> buffer = arrow::Buffer::FromString("words");
  ByteArena arena;
  arena.Keep(buffer);
  arena.Keep(buffer);
  EXPECT_EQ(buffer.use_count(), 2);
  arena.Clear();
  EXPECT_EQ(buffer.use_count(), 1);
}

TEST(ShortCopy, CopiesEverySizeAndNoMore) {
  std::string from;
  for (int i = 0; i < 100; ++i) from.push_back(static_cast<char>(i + 1));
  for (int64_t bytes = 0; bytes <= 100; ++bytes) {
    std::string to(102, '\0');
    ShortCopy(reinterpret_cast<uint8_t*>(to.data()) + 1,
              reinterpret_cast<const uint8_t*>(from.data()), bytes);
    const auto size = static_cast<size_t>(bytes);
    EXPECT_EQ(to, '\0' + from.substr(0, size) + std::string(101 - size, '\0'));
  }
}

}  // namespace
}  // namespace fastload
