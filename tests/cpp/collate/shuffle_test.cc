#include "fastload/collate/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace fastload {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15ULL;

std::vector<uint32_t> RowsOf(const Shuffle& shuffle) {
  return {shuffle.rows.begin(), shuffle.rows.end()};
}

std::vector<uint32_t> Permuted(uint64_t key, uint32_t rows,
                               uint32_t bucket_rows = kBucketRows) {
  Shuffle shuffle;
  MakeShuffle(key, rows, &shuffle, bucket_rows);
  return RowsOf(shuffle);
}

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The definition in fastload.plan.permutation, step by step.
std::vector<uint32_t> Model(uint64_t key, uint32_t rows,
                            uint32_t bucket_rows = kBucketRows) {
  int bits = 0;
  while ((uint64_t{bucket_rows} << bits) < rows) ++bits;
  std::vector<std::vector<uint32_t>> dealt(size_t{1} << bits);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t field = Mix(key + (row / 4 + 1) * kGamma) >> (16 * (row % 4)) & 0xFFFF;
    dealt[field >> (16 - bits)].push_back(row);
  }
  std::vector<uint32_t> order;
  for (uint64_t b = 0; b < dealt.size(); ++b) {
    std::vector<uint32_t>& bucket = dealt[b];
    uint64_t stream = key;
    if (bits > 0) {
      stream = 0;
      for (const uint64_t part : {key, b}) {
        stream = Mix((stream ^ Mix(part + kGamma)) + kGamma);
      }
    }
    uint64_t half = 0;
    for (uint64_t left = bucket.size(); left > 1; --left, ++half) {
      const uint64_t draw = Mix(stream + (half / 2 + 1) * kGamma);
      const uint64_t number = half % 2 == 0 ? draw & 0xFFFFFFFF : draw >> 32;
      std::swap(bucket[left - 1], bucket[number * left >> 32]);
    }
    order.insert(order.end(), bucket.begin(), bucket.end());
  }
  return order;
}

// The values are the same as the fixed values in tests/unit/plan/test_permutation.py.
TEST(Shuffle, SmallBucketsHoldEachRowOnce) {
  Shuffle shuffle;
  MakeShuffle(7, 1000, &shuffle, 16);
  EXPECT_EQ(shuffle.buckets(), 64);
  std::vector<uint32_t> rows = RowsOf(shuffle);
  std::sort(rows.begin(), rows.end());
  for (uint32_t row = 0; row < 1000; ++row) EXPECT_EQ(rows[row], row);
}

TEST(Shuffle, ValuesStayAsTheyAre) {
  EXPECT_EQ(Permuted(0xCD7F3A87B5BB05BEULL, 10),
            (std::vector<uint32_t>{7, 1, 9, 4, 8, 5, 6, 3, 0, 2}));
  EXPECT_EQ(Permuted(0xA811560A4D177105ULL, 12),
            (std::vector<uint32_t>{1, 7, 5, 8, 4, 6, 2, 9, 3, 0, 11, 10}));
}

TEST(Shuffle, EqualsItsDefinition) {
  for (const uint32_t rows :
       {0U, 1U, 2U, 3U, 257U, kBucketRows, kBucketRows + 1, 2 * kBucketRows + 1,
        4 * kBucketRows, 5 * kBucketRows + 77}) {
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

TEST(Shuffle, EqualsItsDefinitionWithAsManyRowsAsOneRegisterCounts) {
  for (const uint32_t rows : {65'534U, 65'535U, 65'536U, 65'537U}) {
    for (const uint32_t bucket_rows : {8192U, 1U << 14, 1U << 15, 65'535U}) {
      ASSERT_EQ(Permuted(3, rows, bucket_rows), Model(3, rows, bucket_rows))
          << rows << " rows, " << bucket_rows << " a bucket";
    }
  }
}

TEST(Shuffle, NothingIsLeftOfTheOneBefore) {
  Shuffle shuffle;
  for (const uint32_t rows : {200'000U, 10U, 0U, 70'000U, 3U}) {
    MakeShuffle(rows, rows, &shuffle);
    EXPECT_EQ(RowsOf(shuffle), Permuted(rows, rows));
    EXPECT_EQ(shuffle.bucket_starts.back(), rows);
    EXPECT_EQ(shuffle.buckets() == 1, rows <= kBucketRows);
  }
}

TEST(TwoSteps, DealInOrderAndPutEachRowAtItsPosition) {
  Shuffle shuffle;
  for (const uint32_t rows : {0U, 1U, 1000U, 8192U, 8193U, 300'000U}) {
    MakeShuffle(7, rows, &shuffle);
    EXPECT_EQ(shuffle.bucket_starts.front(), 0);
    EXPECT_TRUE(std::ranges::is_sorted(shuffle.bucket_starts));
    const TwoSteps steps(shuffle);
    // Rows of a bucket keep their order when they are dealt, so that writes are
    // sequential.
    std::vector<int64_t> next;
    for (int64_t b = 0; b < shuffle.buckets(); ++b) {
      next.push_back(TwoSteps::SlotStart(shuffle, b));
    }
    const std::vector<int64_t> starts = next;
    std::vector<uint32_t> row_in(static_cast<size_t>(TwoSteps::SlotCount(shuffle)));
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t slot = steps.slots[row];
      const auto above = std::ranges::upper_bound(starts, int64_t{slot});
      ASSERT_EQ(slot, next[static_cast<size_t>(above - starts.begin()) - 1]++);
      row_in[slot] = row;
    }
    for (int64_t b = 0; b < shuffle.buckets(); ++b) {
      const auto i = static_cast<size_t>(b);
      for (uint32_t p = shuffle.bucket_starts[i]; p < shuffle.bucket_starts[i + 1]; ++p) {
        ASSERT_EQ(row_in[static_cast<size_t>(starts[i]) + steps.within[p]],
                  shuffle.rows[p]);
      }
    }
  }
}

TEST(ShuffleTo, PutsEachRowAtItsPosition) {
  for (const uint32_t rows : {0U, 1U, 7U, 8U, 9U, 100U}) {
    Shuffle given;
    MakeShuffle(rows + 5, rows, &given);
    const std::vector<uint32_t> order = RowsOf(given);
    for (const uint32_t bucket_rows : {1U, 3U, 8U, 200U}) {
      Shuffle shuffle;
      MakeShuffle(1, 50, &shuffle);  // what an earlier window left
      ShuffleTo(order, &shuffle, bucket_rows);
      EXPECT_EQ(RowsOf(shuffle), order) << rows << " rows, " << bucket_rows;
      EXPECT_EQ(shuffle.bucket_starts.back(), rows);
    }
  }
}

}  // namespace
}  // namespace fastload
