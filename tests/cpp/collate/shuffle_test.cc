#include "fastload/collate/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace fastload {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15ULL;
constexpr uint32_t kBucketRows = 1 << 15;

std::vector<uint32_t> Permuted(uint64_t key, uint32_t rows) {
  Shuffle shuffle;
  MakeShuffle(key, rows, &shuffle);
  return Permutation(shuffle);
}

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Returns (random * bound) >> 64, multiplied in halves.
uint64_t Below(uint64_t random, uint64_t bound) {
  return ((random >> 32) * bound + (((random & 0xFFFFFFFF) * bound) >> 32)) >> 32;
}

// The definition in fastload.plan.permutation, step by step.
std::vector<uint32_t> Model(uint64_t key, uint32_t rows) {
  const uint64_t buckets = (uint64_t{rows} + kBucketRows - 1) / kBucketRows;
  std::vector<std::vector<uint32_t>> dealt(std::max<uint64_t>(1, buckets));
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t random = Mix(key + (row + 1) * kGamma);
    dealt[buckets > 1 ? Below(random, buckets) : 0].push_back(row);
  }
  std::vector<uint32_t> order;
  for (uint64_t b = 0; b < dealt.size(); ++b) {
    std::vector<uint32_t>& bucket = dealt[b];
    uint64_t stream = key;
    if (buckets > 1) {
      stream = 0;
      for (const uint64_t part : {key, b}) {
        stream = Mix((stream ^ Mix(part + kGamma)) + kGamma);
      }
    }
    uint64_t number = 0;
    for (uint64_t left = bucket.size(); left > 1; --left) {
      const uint64_t random = Mix(stream + ++number * kGamma);
      std::swap(bucket[left - 1], bucket[Below(random, left)]);
    }
    order.insert(order.end(), bucket.begin(), bucket.end());
  }
  return order;
}

// The values are the same as the fixed values in tests/unit/plan/test_permutation.py.
TEST(Shuffle, SmallBucketsHoldEachRowOnce) {
  Shuffle shuffle;
  MakeShuffle(7, 1000, &shuffle, 16);
  EXPECT_EQ(shuffle.buckets(), 63);
  std::vector<uint32_t> rows = Permutation(shuffle);
  std::sort(rows.begin(), rows.end());
  for (uint32_t row = 0; row < 1000; ++row) EXPECT_EQ(rows[row], row);
}

TEST(Shuffle, ValuesStayAsTheyAre) {
  EXPECT_EQ(Permuted(0xCD7F3A87B5BB05BEULL, 10),
            (std::vector<uint32_t>{2, 4, 6, 7, 9, 3, 5, 1, 8, 0}));
  EXPECT_EQ(Permuted(0xA811560A4D177105ULL, 12),
            (std::vector<uint32_t>{5, 0, 9, 1, 3, 6, 2, 7, 8, 10, 4, 11}));
}

TEST(Shuffle, EqualsItsDefinition) {
  for (const uint32_t rows :
       {0U, 1U, 2U, 3U, 257U, kBucketRows, kBucketRows + 1, 5 * kBucketRows + 77}) {
    for (const uint64_t key :
         {uint64_t{0}, uint64_t{5}, uint64_t{1} << 63, ~uint64_t{0}}) {
      const std::vector<uint32_t> order = Permuted(key, rows);
      ASSERT_EQ(order, Model(key, rows)) << rows << " rows, key " << key;
      std::vector<uint32_t> sorted = order;
      std::sort(sorted.begin(), sorted.end());
      std::vector<uint32_t> all(rows);
      std::iota(all.begin(), all.end(), 0U);
      ASSERT_EQ(sorted, all);
    }
  }
}

TEST(Shuffle, NothingIsLeftOfTheOneBefore) {
  Shuffle shuffle;
  for (const uint32_t rows : {200'000U, 10U, 0U, 70'000U, 3U}) {
    MakeShuffle(rows, rows, &shuffle);
    EXPECT_EQ(Permutation(shuffle), Permuted(rows, rows));
    EXPECT_EQ(shuffle.bucket_starts.back(), rows);
    EXPECT_EQ(shuffle.slots.empty(), rows <= kBucketRows);
  }
}

TEST(Shuffle, BucketsCoverTheRowsInOrder) {
  Shuffle shuffle;
  MakeShuffle(7, 300'000, &shuffle);
  EXPECT_EQ(shuffle.bucket_starts.front(), 0);
  EXPECT_TRUE(std::is_sorted(shuffle.bucket_starts.begin(), shuffle.bucket_starts.end()));
  // Rows of a bucket keep their order when they are dealt, so that writes are sequential.
  std::vector<int64_t> next;
  for (int64_t b = 0; b < shuffle.buckets(); ++b) next.push_back(shuffle.SlotStart(b));
  const std::vector<int64_t> starts = next;
  for (const uint32_t slot : shuffle.slots) {
    const auto above = std::upper_bound(starts.begin(), starts.end(), int64_t{slot});
    const auto bucket = static_cast<size_t>(above - starts.begin()) - 1;
    ASSERT_EQ(slot, next[bucket]++);
  }
  for (size_t b = 0; b < next.size(); ++b) {
    const uint32_t rows = shuffle.bucket_starts[b + 1] - shuffle.bucket_starts[b];
    EXPECT_EQ(next[b] - starts[b], rows);
  }
  EXPECT_GE(shuffle.slot_count(), next.back());
}

TEST(Shuffle, IdentityKeepsEachRow) {
  Shuffle shuffle;
  for (const uint32_t rows : {1U, 1000U, 32768U, 32769U, 100'000U}) {
    MakeIdentity(rows, &shuffle);
    const std::vector<uint32_t> order = Permutation(shuffle);
    ASSERT_EQ(order.size(), rows);
    for (uint32_t row = 0; row < rows; ++row) ASSERT_EQ(order[row], row);
    EXPECT_EQ(shuffle.slots.empty(), rows <= kBucketRows);
  }
}

TEST(ShuffleTo, PutsEachRowAtItsPosition) {
  for (const uint32_t rows : {0U, 1U, 7U, 8U, 9U, 100U}) {
    Shuffle given;
    MakeShuffle(rows + 5, rows, &given);
    const std::vector<uint32_t> order = Permutation(given);
    for (const uint32_t bucket_rows : {1U, 3U, 8U, 200U}) {
      Shuffle shuffle;
      MakeShuffle(1, 50, &shuffle);  // what an earlier window left
      ShuffleTo(order, &shuffle, bucket_rows);
      EXPECT_EQ(Permutation(shuffle), order) << rows << " rows, " << bucket_rows;
    }
  }
}

}  // namespace
}  // namespace fastload
