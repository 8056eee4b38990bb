// Reproducible shuffles: the order is the same on every machine and in every release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/huge_pages.h"

namespace fastload {

// The most rows of a bucket on average.
inline constexpr uint32_t kBucketRows = 1 << 13;

// A permutation of `rows` rows. fastload.plan.permutation.permutation defines which
// permutation a key names.
struct Shuffle {
  using Numbers = std::vector<uint32_t, HugeAllocator<uint32_t>>;

  // Position p takes row rows[p].
  Numbers rows;
  // The first position of each bucket, then the number of rows.
  std::vector<uint32_t> bucket_starts;

  int64_t buckets() const { return static_cast<int64_t>(bucket_starts.size()) - 1; }
};

// The same permutation in two steps, for columns that do not fit a CPU cache: each step
// stays in a cache. The first step deals each row to a slot of its bucket, which writes
// to one open cache line per bucket. The second step reads one bucket at a time in random
// order.
//
// Example with 2 buckets of rows 0 to 4: rows 1 and 4 are dealt to bucket 0, rows 0, 2
// and 3 to bucket 1. Positions 0 and 1 then take bucket 0 in the order of `within`, e.g.
// rows 4, 1, and positions 2 to 4 take bucket 1, e.g. rows 2, 0, 3.
struct TwoSteps {
  explicit TwoSteps(const Shuffle& shuffle);

  // The slot to which each row is dealt.
  Shuffle::Numbers slots;
  // Position p, in bucket b, takes the row in slot SlotStart(b) + within[p].
  std::vector<uint16_t, HugeAllocator<uint16_t>> within;

  static int64_t SlotStart(const Shuffle& shuffle, int64_t bucket) {
    return shuffle.bucket_starts[static_cast<size_t>(bucket)] + bucket * kUnusedSlots;
  }
  static int64_t SlotCount(const Shuffle& shuffle) {
    return SlotStart(shuffle, shuffle.buckets());
  }

  // The slots left empty between buckets. Without a gap the buckets, all of about 2**13
  // rows, would be filled at addresses that share a few sets of the L1 cache. With the
  // gap, for elements of 1 to 8 bytes, 64 buckets spread over all sets.
  static constexpr int64_t kUnusedSlots = 160;
};

// Fills `out`, which keeps its memory from call to call.
// The number of buckets is the least power of two for which a bucket has at most
// `bucket_rows` rows on average, and at most 2**16; only tests choose other buckets.
void MakeShuffle(uint64_t key, uint32_t rows, Shuffle* out,
                 uint32_t bucket_rows = kBucketRows);

// Makes the shuffle that puts row order[p] at position p. `order` is a permutation of
// 0 .. rows-1.
void ShuffleTo(std::span<const uint32_t> order, Shuffle* out,
               uint32_t bucket_rows = kBucketRows);

}  // namespace fastload
