// Reproducible shuffles: the order is the same on every machine and in every release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/huge_pages.h"

namespace fastload {

// The most rows of a bucket on average.
inline constexpr uint32_t kBucketRows = 1 << 15;

// A permutation of `rows` rows, applied in two passes so that both stay in a CPU cache.
// Pass 1 deals each row to a slot of its bucket, which writes to one open cache line per
// bucket. Pass 2 reads one bucket at a time in random order, and a bucket fits the cache.
// fastload.plan.permutation.permutation defines which permutation a key names.
//
// Example with 2 buckets of rows 0 to 4: rows 1 and 4 are dealt to bucket 0, rows 0, 2
// and 3 to bucket 1. Positions 0 and 1 then take bucket 0 in the order of `within`, e.g.
// rows 4, 1, and positions 2 to 4 take bucket 1, e.g. rows 2, 0, 3.
struct Shuffle {
  // The slot to which each row is dealt; empty if there is one bucket and rows keep their
  // order.
  std::vector<uint32_t, HugeAllocator<uint32_t>> slots;
  // Position p, in bucket b, takes the row in slot SlotStart(b) + within[p].
  std::vector<uint16_t, HugeAllocator<uint16_t>> within;
  // The first position of each bucket, then the number of rows.
  std::vector<uint32_t> bucket_starts;

  int64_t buckets() const { return static_cast<int64_t>(bucket_starts.size()) - 1; }
  int64_t SlotStart(int64_t bucket) const {
    return bucket_starts[static_cast<size_t>(bucket)] + bucket * kUnusedSlots;
  }
  int64_t slot_count() const { return SlotStart(buckets()); }

  // The slots left empty between buckets. Without a gap the buckets, all of about 2**15
  // rows, would be filled at addresses that share a few sets of the L1 cache. With the
  // gap, for elements of 1 to 8 bytes, 16 buckets spread over all sets, and dealing is
  // twice as fast.
  static constexpr int64_t kUnusedSlots = 160;
};

// Fills `out`, which keeps its memory from call to call.
// A bucket has at most `bucket_rows` rows on average; only tests choose another number.
void MakeShuffle(uint64_t key, uint32_t rows, Shuffle* out,
                 uint32_t bucket_rows = kBucketRows);

// Fills `out` with the order in which position p takes row p, however many rows there
// are.
void MakeIdentity(uint32_t rows, Shuffle* out);

// Returns the row of each position.
std::vector<uint32_t> Permutation(const Shuffle& shuffle);

// Makes the shuffle that puts row order[p] at position p. `order` is a permutation of
// 0 .. rows-1.
void ShuffleTo(std::span<const uint32_t> order, Shuffle* out,
               uint32_t bucket_rows = kBucketRows);

}  // namespace fastload
