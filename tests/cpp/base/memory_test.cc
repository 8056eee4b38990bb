#include "fastload/base/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace fastload {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A source with a fixed amount of memory, which records returned memory.
class CountedMemory final : public MemorySource {
 public:
  CountedMemory(int64_t bytes, int64_t* mapped) : left_(bytes), mapped_(mapped) {}

  uint8_t* Map(int64_t bytes) override {
    if (bytes > left_) return nullptr;
    left_ -= bytes;
    *mapped_ += bytes;
    return memory_->Map(bytes);
  }
  void Unmap(uint8_t* data, int64_t bytes) noexcept override {
    left_ += bytes;
    *mapped_ -= bytes;
    memory_->Unmap(data, bytes);
  }

 private:
  const std::unique_ptr<MemorySource> memory_ = MakePrivateMemory();
  int64_t left_;
  int64_t* mapped_;
};

BlockPool PrivatePool(int64_t limit_bytes) { return {MakePrivateMemory(), limit_bytes}; }

TEST(BlockPool, BlocksAreAlignedAndLargeEnough) {
  BlockPool pool = PrivatePool(64 * kMiB);
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{4097},
                              int64_t{5000}, kMiB - 1, kMiB, kMiB + 1, 9 * kMiB + 17}) {
    const auto block = *pool.Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % kAlignment, 0) << bytes;
    EXPECT_EQ(block->size(), bytes);
    EXPECT_GE(block->capacity(), bytes);
    std::memset(block->data(), 0xA5, static_cast<size_t>(block->capacity()));
  }
}

TEST(BlockPool, SizeClassesWasteLittle) {
  BlockPool pool = PrivatePool(0);
  int64_t before = 0;
  for (int64_t bytes = 1; bytes < 3 * kMiB; bytes += 1 + bytes / 97) {
    const int64_t capacity = (*pool.Allocate(bytes))->capacity();
    EXPECT_EQ(capacity % kAlignment, 0);
    EXPECT_GE(capacity, before);
    if (bytes > 4096) {
      EXPECT_LE(capacity, bytes + bytes / 8 + kAlignment);
    } else {
      EXPECT_EQ(capacity, 4096);
    }
    before = capacity;
  }
}

TEST(BlockPool, ReusesDeadBlocksOfTheSameClass) {
  BlockPool pool = PrivatePool(64 * kMiB);
  auto block = *pool.Allocate(100'000);
  const uint8_t* data = block->data();
  block.reset();
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_GT(pool.stats().cached_bytes, 0);
  block = *pool.Allocate(99'000);
  EXPECT_EQ(block->data(), data);
  EXPECT_EQ(block->size(), 99'000);
  EXPECT_EQ(pool.stats().mapped_total, 1);
  EXPECT_EQ(pool.stats().cached_bytes, 0);
  const auto other = *pool.Allocate(200'000);
  EXPECT_EQ(pool.stats().mapped_total, 2);
}

TEST(BlockPool, KeepsNoMoreThanItsLimit) {
  int64_t mapped = 0;
  {
    BlockPool pool(std::make_unique<CountedMemory>(100 * kMiB, &mapped), 4 * kMiB);
    std::vector<std::shared_ptr<Block>> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(*pool.Allocate(kMiB));
    EXPECT_EQ(pool.stats().used_bytes, 8 * kMiB);
    blocks.clear();
    EXPECT_EQ(pool.stats().used_bytes, 0);
    EXPECT_EQ(pool.stats().cached_bytes, 4 * kMiB);
    EXPECT_EQ(mapped, 4 * kMiB);
    // The block has a class of its own, so cached blocks are freed.
    const auto large = *pool.Allocate(3 * kMiB);
    EXPECT_EQ(pool.stats().cached_bytes, kMiB);
    EXPECT_EQ(mapped, 4 * kMiB);
  }
  EXPECT_EQ(mapped, 0);
}

TEST(BlockPool, SaysWhenThereIsNoMemory) {
  int64_t mapped = 0;
  BlockPool pool(std::make_unique<CountedMemory>(kMiB, &mapped), 10 * kMiB);
  const auto first = *pool.Allocate(kMiB);
  const auto second = pool.Allocate(kMiB);
  EXPECT_TRUE(second.status().IsOutOfMemory());
  EXPECT_EQ(second.status().message(), "Expected 1048576 bytes for a batch, got none");
  EXPECT_EQ(pool.stats().used_bytes, kMiB);
}

TEST(BlockPool, RefusesMoreThanAllMemory) {
  BlockPool pool(MakePrivateMemory(), 0);
  for (const int64_t bytes : {int64_t{1} << 61, INT64_MAX - 1, INT64_MAX}) {
    EXPECT_TRUE(pool.Allocate(bytes).status().IsOutOfMemory()) << bytes;
  }
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

TEST(BlockPool, CountsWhatIsLent) {
  BlockPool pool = PrivatePool(64 * kMiB);
  auto first = *pool.Allocate(5000);
  auto second = *pool.Allocate(5000);
  EXPECT_EQ(pool.stats().lent_bytes, 0);
  first->MarkLent();
  first->MarkLent();
  EXPECT_EQ(pool.stats().lent_bytes, first->capacity());
  EXPECT_EQ(pool.stats().used_bytes, 2 * first->capacity());
  second.reset();
  EXPECT_EQ(pool.stats().lent_bytes, first->capacity());
  first.reset();
  EXPECT_EQ(pool.stats().lent_bytes, 0);
  // The same memory was lent before, but the new block is not lent.
  first = *pool.Allocate(5000);
  EXPECT_EQ(pool.stats().lent_bytes, 0);
}

TEST(BlockPool, SurrenderedBlocksAreCountedAndLeftAlone) {
  int64_t mapped = 0;
  BlockPool pool(std::make_unique<CountedMemory>(8 * kMiB, &mapped), 8 * kMiB);
  auto block = *pool.Allocate(kMiB);
  uint8_t* const data = block->data();
  block->MarkLent();
  block->Surrender();
  block.reset();
  EXPECT_EQ(mapped, kMiB);
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ(pool.stats().lent_bytes, 0);
  EXPECT_EQ(pool.stats().cached_bytes, 0);
  EXPECT_NE((*pool.Allocate(kMiB))->data(), data);
  MakePrivateMemory()->Unmap(data, kMiB);
}

TEST(BlockPool, BlocksAndSlicesOutliveIt) {
  int64_t mapped = 0;
  auto pool = std::make_unique<BlockPool>(
      std::make_unique<CountedMemory>(100 * kMiB, &mapped), 100 * kMiB);
  auto block = *pool->Allocate(2 * kMiB);
  std::memset(block->data(), 1, static_cast<size_t>(block->size()));
  auto slice = BlockSlice(block, 1000, 24);
  pool.reset();
  block.reset();
  EXPECT_EQ(slice->size(), 24);
  EXPECT_EQ(slice->data()[23], 1);
  EXPECT_GT(mapped, 0);
  slice.reset();
  EXPECT_EQ(mapped, 0);
}

TEST(BlockPool, ThreadsShareIt) {
  BlockPool pool = PrivatePool(kMiB);
  {
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&pool, t] {
        std::mt19937 random(t);
        std::vector<std::shared_ptr<Block>> held(8);
        for (int i = 0; i < 2000; ++i) {
          auto& block = held[random() % held.size()];
          block = *pool.Allocate(1 + random() % 100'000);
          block->data()[block->size() - 1] = 1;
          if (random() % 2 == 0) block->MarkLent();
        }
      });
    }
  }
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ(pool.stats().lent_bytes, 0);
  EXPECT_LE(pool.stats().cached_bytes, kMiB);
}

// A pool that is drained frees its dead blocks, and frees blocks as soon as they die.
TEST(BlockPool, DrainsItsDeadBlocks) {
  BlockPool pool(MakePrivateMemory(), int64_t{64} << 20);
  auto alive = *pool.Allocate(5000);
  (*pool.Allocate(50'000)).reset();
  EXPECT_GE(pool.stats().cached_bytes, 50'000);
  pool.Drain();
  EXPECT_EQ(pool.stats().cached_bytes, 0);
  EXPECT_EQ(pool.stats().used_bytes, alive->capacity());
  alive.reset();
  EXPECT_EQ(pool.stats().cached_bytes, 0);
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ((*pool.Allocate(100))->size(), 100);
}

}  // namespace
}  // namespace fastload
