#include "fastload/collate/shuffle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "fastload/base/clones.h"
#include "fastload/base/prefetch.h"
#include "fastload/base/stream_key.h"

namespace fastload {
namespace {

// The draws made at once; the draws stay in the L1 cache.
constexpr uint32_t kBlockDraws = 512;
// The bits of a draw from which one bucket is taken, and the most buckets.
constexpr int kBucketBits = 16;

// Writes `count` draws of the stream `key`, from its first draw on.
FASTLOAD_CLONES void Draw(uint64_t key, uint32_t count, uint64_t* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = Mix64(key + (uint64_t{i} + 1) * kGamma);
}

// Scales `count` halves of draws in place: half i to a number below bound - i.
FASTLOAD_CLONES void ScaleBelow(uint32_t bound, uint32_t count, uint32_t* halves) {
  for (uint32_t i = 0; i < count; ++i) {
    halves[i] = static_cast<uint32_t>(uint64_t{halves[i]} * (bound - i) >> 32);
  }
}

// Applies Durstenfeld's shuffle to `rows` with the stream `key`.
void ShuffleBucket(uint64_t key, std::span<uint32_t> rows) {
  std::array<uint64_t, kBlockDraws> draws;
  std::array<uint32_t, 2 * kBlockDraws> chosen;
  uint32_t* const out = rows.data();
  for (auto left = static_cast<uint32_t>(rows.size()); left > 1;) {
    const uint32_t count = std::min(2 * kBlockDraws, left - 1);
    const uint32_t used = (count + 1) / 2;
    Draw(key, used, draws.data());
    // Little-endian: the lower half of a draw comes first.
    std::memcpy(chosen.data(), draws.data(), used * sizeof(uint64_t));
    ScaleBelow(left, count, chosen.data());
    for (uint32_t i = 0; i < count; ++i) std::swap(out[left - 1 - i], out[chosen[i]]);
    key += used * kGamma;
    left -= count;
  }
}

constexpr uint32_t kRowsPerDraw = 64 / kBucketBits;
constexpr uint32_t kDealtRows = kRowsPerDraw * kBlockDraws;

// Calls fn(row, bits) for blocks of rows from `row` on, with the 16 bits of each from
// which its bucket is taken.
template <typename Fn>
void ForEachBlock(uint64_t key, uint32_t rows, const Fn& fn) {
  std::array<uint64_t, kBlockDraws> draws;
  std::array<uint16_t, kDealtRows> bits;
  for (uint32_t row = 0; row < rows;) {
    const uint32_t count = std::min(kDealtRows, rows - row);
    Draw(key, (count + kRowsPerDraw - 1) / kRowsPerDraw, draws.data());
    // Little-endian: the lowest bits are the first row's.
    std::memcpy(bits.data(), draws.data(), sizeof(bits));
    fn(row, std::span(bits).first(count));
    key += kBlockDraws * kGamma;
    row += count;
  }
}

// A number of rows for each bucket.
class Counts {
 public:
  explicit Counts(uint32_t buckets) : counts_(buckets) {}
  uint32_t size() const { return static_cast<uint32_t>(counts_.size()); }
  uint32_t Get(uint32_t bucket) const { return counts_[bucket]; }
  // Counts a row; returns the number before.
  uint32_t Add(uint32_t bucket, uint32_t rows = 1) {
    return std::exchange(counts_[bucket], counts_[bucket] + rows);
  }

 private:
  std::vector<uint32_t> counts_;
};

// The same for few buckets, in one register. In memory, most rows would wait for the
// number that the row before them has written.
class PackedCounts {
 public:
  static constexpr int kBits = 16;
  static constexpr uint32_t kMostBuckets = 64 / kBits;
  static constexpr uint32_t kMostRows = (1U << kBits) - 1;

  explicit PackedCounts(uint32_t buckets) : buckets_(buckets) {}
  uint32_t size() const { return buckets_; }
  uint32_t Get(uint32_t bucket) const { return counts_ >> (bucket * kBits) & kMostRows; }
  uint32_t Add(uint32_t bucket, uint32_t rows = 1) {
    const uint32_t before = Get(bucket);
    counts_ += uint64_t{rows} << (bucket * kBits);
    return before;
  }

 private:
  uint32_t buckets_;
  uint64_t counts_ = 0;
};

// Deals the rows to their buckets, in order, after counting how many each bucket gets.
template <typename Counter>
void DealRows(uint64_t key, uint32_t rows, int shift, Counter counts, Shuffle* out) {
  ForEachBlock(key, rows, [&](uint32_t, std::span<const uint16_t> bits) {
    for (const uint16_t of_row : bits) counts.Add(of_row >> shift);
  });
  Counter next(counts.size());  // position of a bucket
  for (uint32_t b = 0; b < counts.size(); ++b) {
    const uint32_t start = out->bucket_starts.back();
    next.Add(b, start);
    out->bucket_starts.push_back(start + counts.Get(b));
  }
  uint32_t* const dealt = out->rows.data();
  std::array<uint32_t, kDealtRows> positions;
  ForEachBlock(key, rows, [&](uint32_t row, std::span<const uint16_t> bits) {
    // Before the rows are stored, so that the lines of all buckets are asked for early.
    for (size_t i = 0; i < bits.size(); ++i) {
      positions[i] = next.Add(bits[i] >> shift);
      PrefetchForWrite(dealt + positions[i]);
    }
    for (size_t i = 0; i < bits.size(); ++i) {
      dealt[positions[i]] = row + static_cast<uint32_t>(i);
    }
  });
}

}  // namespace

void MakeShuffle(uint64_t key, uint32_t rows, Shuffle* out, uint32_t bucket_rows) {
  const uint32_t least = rows / bucket_rows + (rows % bucket_rows == 0 ? 0 : 1);
  out->rows.resize(rows);
  out->bucket_starts.assign(1, 0);
  if (least <= 1) {
    out->bucket_starts.push_back(rows);
    std::iota(out->rows.begin(), out->rows.end(), 0U);
    ShuffleBucket(key, out->rows);
    return;
  }
  const uint32_t buckets = std::min(std::bit_ceil(least), uint32_t{1} << kBucketBits);
  const int shift = kBucketBits - std::countr_zero(buckets);
  if (buckets <= PackedCounts::kMostBuckets && rows <= PackedCounts::kMostRows) {
    DealRows(key, rows, shift, PackedCounts(buckets), out);
  } else {
    DealRows(key, rows, shift, Counts(buckets), out);
  }
  for (uint32_t b = 0; b < buckets; ++b) {
    const uint32_t start = out->bucket_starts[b];
    ShuffleBucket(Fold(Fold(0, key), b),
                  std::span(out->rows).subspan(start, out->bucket_starts[b + 1] - start));
  }
}

void ShuffleTo(std::span<const uint32_t> order, Shuffle* out, uint32_t bucket_rows) {
  const auto rows = static_cast<uint32_t>(order.size());
  out->rows.assign(order.begin(), order.end());
  out->bucket_starts.assign(1, 0);
  do {
    out->bucket_starts.push_back(std::min(rows, out->bucket_starts.back() + bucket_rows));
  } while (out->bucket_starts.back() < rows);
}

TwoSteps::TwoSteps(const Shuffle& shuffle) {
  const size_t rows = shuffle.rows.size();
  slots.resize(rows);
  within.resize(rows);
  const auto for_each_position = [&](const auto& fn) {
    for (int64_t b = 0; b < shuffle.buckets(); ++b) {
      const auto i = static_cast<size_t>(b);
      for (uint32_t p = shuffle.bucket_starts[i]; p < shuffle.bucket_starts[i + 1]; ++p) {
        fn(b, p);
      }
    }
  };
  // First the bucket of each row, then its next slot.
  for_each_position(
      [&](int64_t b, uint32_t p) { slots[shuffle.rows[p]] = static_cast<uint32_t>(b); });
  std::vector<uint32_t> next;
  next.reserve(shuffle.bucket_starts.size());
  for (int64_t b = 0; b < shuffle.buckets(); ++b) {
    next.push_back(static_cast<uint32_t>(SlotStart(shuffle, b)));
  }
  for (uint32_t& slot : slots) slot = next[slot]++;
  // A bucket has about kBucketRows rows, so that one of more than 2**16 does not occur.
  for_each_position([&](int64_t b, uint32_t p) {
    within[p] = static_cast<uint16_t>(slots[shuffle.rows[p]] - SlotStart(shuffle, b));
  });
}

}  // namespace fastload
