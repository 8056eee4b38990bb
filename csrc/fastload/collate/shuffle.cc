#include "fastload/collate/shuffle.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "fastload/base/clones.h"
#include "fastload/base/stream_key.h"

namespace fastload {
namespace {

// The draws made at once; the draws stay in the L1 cache.
constexpr uint32_t kBlockDraws = 1024;

// Returns floor(draw * bound / 2**64), in steps for which vector instructions exist.
FASTLOAD_INLINE uint32_t Below(uint64_t draw, uint64_t bound) {
  const uint64_t low = (draw & 0xFFFFFFFF) * bound >> 32;
  return static_cast<uint32_t>(((draw >> 32) * bound + low) >> 32);
}

// Writes the next `count` draws of the stream `key`: below bound, bound - step, ...
FASTLOAD_CLONES void DrawBelow(uint64_t key, uint32_t bound, uint32_t step,
                               uint32_t count, uint32_t* out) {
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = Below(Mix64(key + (uint64_t{i} + 1) * kGamma), bound - i * step);
  }
}

// Applies Durstenfeld's shuffle to 0 .. rows-1 with the stream `key`.
void ShuffleBucket(uint64_t key, uint32_t rows, uint16_t* out) {
  std::array<uint32_t, kBlockDraws> draws;
  std::iota(out, out + rows, uint16_t{0});
  for (uint32_t left = rows; left > 1;) {
    const uint32_t count = std::min(kBlockDraws, left - 1);
    DrawBelow(key, left, 1, count, draws.data());
    for (uint32_t i = 0; i < count; ++i) std::swap(out[left - 1 - i], out[draws[i]]);
    key += count * kGamma;
    left -= count;
  }
}

// Draws the bucket of each row.
void DrawBuckets(uint64_t key, uint32_t buckets, std::span<uint32_t> out) {
  for (size_t row = 0; row < out.size();) {
    const auto count =
        static_cast<uint32_t>(std::min<size_t>(kBlockDraws, out.size() - row));
    DrawBelow(key, buckets, 0, count, out.data() + row);
    key += count * kGamma;
    row += count;
  }
}

}  // namespace

void MakeShuffle(uint64_t key, uint32_t rows, Shuffle* out, uint32_t bucket_rows) {
  const uint32_t buckets = rows / bucket_rows + (rows % bucket_rows == 0 ? 0 : 1);
  out->within.resize(rows);
  out->slots.clear();
  out->bucket_starts.assign(1, 0);
  if (buckets <= 1) {
    out->bucket_starts.push_back(rows);
    ShuffleBucket(key, rows, out->within.data());
    return;
  }
  // First draw the bucket of each row, then, with the buckets' sizes known, compute the
  // row's slot. With kBucketRows rows on average, a bucket with twice as many rows, which
  // would exceed 16 bits, is 180 standard deviations away.
  out->slots.resize(rows);
  std::vector<uint32_t> ends(buckets);
  DrawBuckets(key, buckets, out->slots);
  for (const uint32_t bucket : out->slots) ++ends[bucket];
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

void ShuffleTo(std::span<const uint32_t> order, Shuffle* out, uint32_t bucket_rows) {
  const auto rows = static_cast<uint32_t>(order.size());
  out->slots.clear();
  out->within.resize(rows);
  out->bucket_starts.clear();
  for (uint32_t start = 0; start < rows; start += bucket_rows) {
    out->bucket_starts.push_back(start);
  }
  out->bucket_starts.push_back(rows);
  if (out->buckets() <= 1) {
    std::ranges::transform(order, out->within.begin(),
                           [](uint32_t row) { return static_cast<uint16_t>(row); });
    return;
  }
  // First the position of each row, whose bucket then deals the row its next slot.
  std::vector<uint32_t> position_of(rows);
  for (uint32_t position = 0; position < rows; ++position) {
    position_of[order[position]] = position;
  }
  std::vector<uint16_t> taken(static_cast<size_t>(out->buckets()));
  out->slots.resize(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t position = position_of[row];
    const uint32_t bucket = position / bucket_rows;
    const uint16_t slot = taken[bucket]++;
    out->within[position] = slot;
    out->slots[row] = static_cast<uint32_t>(out->SlotStart(bucket)) + slot;
  }
}

void MakeIdentity(uint32_t rows, Shuffle* out) {
  out->within.resize(rows);
  out->slots.clear();
  out->bucket_starts.assign(1, 0);
  for (uint32_t start = 0; start < rows; start += kBucketRows) {
    const uint32_t end = start + std::min(kBucketRows, rows - start);
    std::iota(out->within.begin() + start, out->within.begin() + end, uint16_t{0});
    out->bucket_starts.push_back(end);
  }
  if (out->buckets() == 1) return;
  out->slots.resize(rows);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t bucket = row / kBucketRows;
    out->slots[row] =
        static_cast<uint32_t>(out->SlotStart(bucket)) + row - bucket * kBucketRows;
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
