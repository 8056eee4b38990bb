#include "fastload/shuffle.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fastload/stream_key.h"

namespace fastload {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint32_t kBucketRows = 1 << 15;

constexpr uint32_t Below(uint64_t draw, uint64_t bound) {
  return static_cast<uint32_t>((static_cast<Wide>(draw) * bound) >> 64);
}

// Durstenfeld's shuffle of 0 .. rows-1 with the stream `key`.
void ShuffleBucket(uint64_t key, uint32_t rows, uint16_t* out) {
  std::iota(out, out + rows, uint16_t{0});
  for (uint32_t i = rows; i > 1; --i) {
    key += kGamma;
    std::swap(out[i - 1], out[Below(Mix64(key), i)]);
  }
}

}  // namespace

void MakeShuffle(uint64_t key, uint32_t rows, Shuffle* out) {
  const uint32_t buckets = rows / kBucketRows + (rows % kBucketRows == 0 ? 0 : 1);
  out->within.resize(rows);
  out->slots.clear();
  out->bucket_starts.assign(1, 0);
  if (buckets <= 1) {
    out->bucket_starts.push_back(rows);
    ShuffleBucket(key, rows, out->within.data());
    return;
  }
  // First the bucket of each row, then, knowing the buckets' sizes, its slot. A bucket
  // has kBucketRows rows on average at most; that one has twice as many, and outgrows 16
  // bits, is 180 standard deviations away.
  out->slots.resize(rows);
  std::vector<uint32_t> ends(buckets);
  uint64_t counter = key;
  for (uint32_t row = 0; row < rows; ++row) {
    counter += kGamma;
    const uint32_t bucket = Below(Mix64(counter), buckets);
    out->slots[row] = bucket;
    ++ends[bucket];
  }
  for (uint32_t size : ends) {
    out->bucket_starts.push_back(out->bucket_starts.back() + size);
  }
  for (uint32_t b = 0; b < buckets; ++b)
    ends[b] = static_cast<uint32_t>(out->SlotStart(b));
  for (uint32_t& slot : out->slots) slot = ends[slot]++;
  for (uint32_t b = 0; b < buckets; ++b) {
    const uint32_t start = out->bucket_starts[b];
    ShuffleBucket(Fold(Fold(0, key), b), out->bucket_starts[b + 1] - start,
                  out->within.data() + start);
  }
}

std::vector<uint32_t> Permutation(const Shuffle& shuffle) {
  std::vector<uint32_t> row_at(static_cast<size_t>(shuffle.slot_count()));
  std::iota(row_at.begin(), row_at.end(), 0U);
  for (uint32_t row = 0; row < shuffle.slots.size(); ++row)
    row_at[shuffle.slots[row]] = row;
  std::vector<uint32_t> rows(shuffle.within.size());
  for (int64_t b = 0; b < shuffle.buckets(); ++b) {
    const auto i = static_cast<size_t>(b);
    for (uint32_t p = shuffle.bucket_starts[i]; p < shuffle.bucket_starts[i + 1]; ++p) {
      rows[p] = row_at[static_cast<size_t>(shuffle.SlotStart(b)) + shuffle.within[p]];
    }
  }
  return rows;
}

}  // namespace fastload
