#include "fastload/collate/packing.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

#include "fastload/collate/shuffle.h"

namespace fastload {
namespace {

// A set of numbers from 0 to `most`, in words of bits over words of bits.
class NumberSet {
 public:
  explicit NumberSet(uint32_t most) {
    size_t bits = size_t{most} + 1;
    do {
      bits = (bits + 63) / 64;
      levels_.emplace_back(bits);
    } while (bits > 1);
  }

  void Insert(uint32_t number) {
    for (auto& words : levels_) {
      const uint64_t before = words[number / 64];
      words[number / 64] = before | uint64_t{1} << (number % 64);
      if (before != 0) return;
      number /= 64;
    }
  }
  void Erase(uint32_t number) {
    for (auto& words : levels_) {
      words[number / 64] &= ~(uint64_t{1} << (number % 64));
      if (words[number / 64] != 0) return;
      number /= 64;
    }
  }
  // Returns the least number of the set from `from` on, or -1.
  int64_t Next(uint32_t from) const {
    for (size_t level = 0; level < levels_.size(); ++level) {
      const auto& words = levels_[level];
      const uint32_t word = from / 64;
      if (word >= words.size()) return -1;
      const uint64_t bits = words[word] >> (from % 64);
      if (bits != 0) return First(level, from + std::countr_zero(bits));
      from = word + 1;
    }
    return -1;
  }

 private:
  // Returns the least number below entry `number` of a level.
  int64_t First(size_t level, uint32_t number) const {
    while (level-- > 0) {
      number =
          number * 64 + static_cast<uint32_t>(std::countr_zero(levels_[level][number]));
    }
    return number;
  }

  std::vector<std::vector<uint64_t>> levels_;
};

}  // namespace

std::vector<int32_t> BestFit(std::span<const uint32_t> sizes, uint32_t capacity) {
  // Items by size, by counting: at last `starts[s]` is where the items of size s end.
  std::vector<uint32_t> starts(size_t{capacity} + 2);
  for (const uint32_t size : sizes) ++starts[capacity - size + 1];
  for (size_t s = 1; s < starts.size(); ++s) starts[s] += starts[s - 1];
  std::vector<uint32_t> items(sizes.size());
  for (uint32_t i = 0; i < sizes.size(); ++i) items[starts[capacity - sizes[i]]++] = i;

  // The bins with the same room form a list: `latest` of each room, and `before` it.
  constexpr int32_t kNone = -1;
  std::vector<int32_t> latest(size_t{capacity} + 1, kNone);
  std::vector<int32_t> before;
  NumberSet rooms(capacity);
  std::vector<int32_t> bins(sizes.size());
  for (const uint32_t item : items) {
    const int64_t fits = rooms.Next(sizes[item]);
    int32_t bin = static_cast<int32_t>(before.size());
    uint32_t room = capacity;
    if (fits < 0) {
      before.push_back(kNone);
    } else {
      room = static_cast<uint32_t>(fits);
      bin = latest[room];
      latest[room] = before[static_cast<size_t>(bin)];
      if (latest[room] == kNone) rooms.Erase(room);
    }
    bins[item] = bin;
    room -= sizes[item];
    if (room == 0) continue;
    if (latest[room] == kNone) rooms.Insert(room);
    before[static_cast<size_t>(bin)] = latest[room];
    latest[room] = bin;
  }
  return bins;
}

namespace {

// Cuts documents longer than `length`.
std::vector<Segment> CutLong(std::span<const Segment> documents, uint32_t length) {
  std::vector<Segment> items;
  items.reserve(documents.size());
  for (const Segment& document : documents) {
    for (uint32_t done = 0; done < document.size; done += length) {
      Segment item = document;
      item.first += done;
      item.size = std::min(length, document.size - done);
      items.push_back(item);
      if (document.size - done <= length) break;  // `done` may not overflow
    }
  }
  return items;
}

}  // namespace

PackedRows PackBest(std::span<const Segment> documents, uint32_t length,
                    std::optional<uint64_t> key) {
  std::vector<Segment> cut;
  std::span<const Segment> items = documents;
  if (std::ranges::any_of(documents, [&](const Segment& d) { return d.size > length; })) {
    cut = CutLong(documents, length);
    items = cut;
  }
  std::vector<uint32_t> sizes;
  sizes.reserve(items.size());
  for (const Segment& item : items) sizes.push_back(item.size);
  const std::vector<int32_t> bins = BestFit(sizes, length);
  const auto last = std::ranges::max_element(bins);
  const size_t count = bins.empty() ? 0 : static_cast<size_t>(*last) + 1;

  // The place of each bin among the rows.
  std::vector<uint32_t> place(count, UINT32_MAX);
  if (key) {
    Shuffle shuffle;
    MakeShuffle(*key, static_cast<uint32_t>(count), &shuffle);
    for (uint32_t row = 0; row < count; ++row) place[shuffle.rows[row]] = row;
  } else {
    uint32_t row = 0;
    for (const int32_t bin : bins) {
      uint32_t& of_bin = place[static_cast<size_t>(bin)];
      if (of_bin == UINT32_MAX) of_bin = row++;
    }
  }
  std::vector<int64_t> room(count, length);
  std::vector<int64_t> next(count + 1);
  for (size_t i = 0; i < items.size(); ++i) {
    const uint32_t row = place[static_cast<size_t>(bins[i])];
    room[row] -= items[i].size;
    ++next[row + 1];
  }
  PackedRows rows;
  for (size_t row = 0; row < count; ++row) next[row + 1] += room[row] > 0 ? 1 : 0;
  std::partial_sum(next.begin(), next.end(), next.begin());
  rows.edges = next;
  rows.segments.resize(static_cast<size_t>(next.back()));
  for (size_t i = 0; i < items.size(); ++i) {
    const uint32_t row = place[static_cast<size_t>(bins[i])];
    rows.segments[static_cast<size_t>(next[row]++)] = items[i];
  }
  for (size_t row = 0; row < count; ++row) {
    if (room[row] == 0) continue;
    rows.segments[static_cast<size_t>(next[row])] =
        Segment{Segment::kPadding, 0, static_cast<uint32_t>(room[row]), 0};
  }
  return rows;
}

}  // namespace fastload
