// Reproducible shuffles: the same order on every machine and in every release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastload/base/huge_pages.h"

namespace fastload {

// A permutation of `rows` rows, in the two steps that carry it out: rows are dealt to
// buckets, which keeps to as many cache lines as there are buckets, then each bucket is
// permuted, which keeps to a bucket. Which permutation a key names is defined by
// fastload.plan.permutation.permutation.
struct Shuffle {
  // The slot that each row is dealt to; empty where there is one bucket and rows stay.
  std::vector<uint32_t, HugeAllocator<uint32_t>> slots;
  // Position p, in bucket b, takes the row in slot SlotStart(b) + within[p].
  std::vector<uint16_t, HugeAllocator<uint16_t>> within;
  // First position of each bucket, and the number of rows.
  std::vector<uint32_t> bucket_starts;

  int64_t buckets() const { return static_cast<int64_t>(bucket_starts.size()) - 1; }
  int64_t SlotStart(int64_t bucket) const {
    return bucket_starts[static_cast<size_t>(bucket)] + bucket * kUnusedSlots;
  }
  int64_t slot_count() const { return SlotStart(buckets()); }

  // Left between buckets. Without them the buckets, all of about 2**15 rows, would be
  // filled at addresses that share a few sets of the L1 cache; with them, for elements of
  // 1 to 8 bytes, 16 buckets spread over all sets. Dealing is twice as fast.
  static constexpr int64_t kUnusedSlots = 160;
};

// `out` keeps its memory from call to call.
void MakeShuffle(uint64_t key, uint32_t rows, Shuffle* out);

// The row of each position.
std::vector<uint32_t> Permutation(const Shuffle& shuffle);

}  // namespace fastload
