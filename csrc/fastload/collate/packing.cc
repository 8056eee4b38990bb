#include "fastload/collate/packing.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

#include "fastload/collate/balanced_order.h"
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

PlanArray<int32_t> BestFit(std::span<const uint32_t> sizes, uint32_t capacity) {
  // Items by size, by counting: at last `starts[s]` is where the items of size s end.
  std::vector<uint32_t> starts(size_t{capacity} + 2);
  for (const uint32_t size : sizes) ++starts[capacity - size + 1];
  for (size_t s = 1; s < starts.size(); ++s) starts[s] += starts[s - 1];
  PlanArray<uint32_t> items(sizes.size());
  for (uint32_t i = 0; i < sizes.size(); ++i) items[starts[capacity - sizes[i]]++] = i;

  // The bins with the same room form a list: `latest` of each room, and `before` it.
  constexpr int32_t kNone = -1;
  std::vector<int32_t> latest(size_t{capacity} + 1, kNone);
  std::vector<int32_t> before;
  NumberSet rooms(capacity);
  PlanArray<int32_t> bins(sizes.size());
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

// Returns the parts of documents, each of at most `length` elements; empty documents have
// none.
PlanArray<Segment> CutLong(const Documents& documents, uint32_t length) {
  PlanArray<Segment> parts;
  parts.reserve(documents.rows.size());
  for (const uint32_t row : documents.rows) {
    const uint32_t kept = documents.kept[row];
    for (uint32_t first = 0; first < kept; first += length) {
      const uint32_t size = std::min(length, kept - first);
      parts.push_back({row, first, size, documents.lengths[row]});
      if (kept - first <= length) break;  // `first` may not overflow
    }
  }
  return parts;
}

}  // namespace

PackedRows PackWindow(const Documents& documents, uint32_t length,
                      std::optional<uint64_t> key) {
  PlanArray<uint32_t> sizes;  // of the items, which are whole documents or parts
  sizes.reserve(documents.rows.size());
  bool whole = true;
  for (const uint32_t row : documents.rows) {
    const uint32_t size = documents.kept[row];
    whole = whole && size > 0 && size <= length;
    sizes.push_back(size);
  }
  PlanArray<Segment> parts;
  if (!whole) {
    parts = CutLong(documents, length);
    sizes.clear();
    for (const Segment& part : parts) sizes.push_back(part.size);
  }
  // A row has no more room than all items fill, so that a long row costs no more.
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  const PlanArray<int32_t> bins =
      BestFit(sizes, static_cast<uint32_t>(std::min<uint64_t>(length, all)));
  const auto last = std::ranges::max_element(bins);
  const size_t count = bins.empty() ? 0 : static_cast<size_t>(*last) + 1;

  // The place of each bin among the rows.
  std::vector<uint32_t> place(count, UINT32_MAX);
  if (key) {
    std::vector<Work> squares(count);  // of a row at most length * length
    for (size_t i = 0; i < sizes.size(); ++i) {
      squares[static_cast<size_t>(bins[i])] += uint64_t{sizes[i]} * sizes[i];
    }
    const std::vector<uint32_t> order = BalancedOrder(*key, squares);
    for (uint32_t row = 0; row < count; ++row) place[order[row]] = row;
  } else {
    uint32_t row = 0;
    for (const int32_t bin : bins) {
      uint32_t& of_bin = place[static_cast<size_t>(bin)];
      if (of_bin == UINT32_MAX) of_bin = row++;
    }
  }
  std::vector<int64_t> room(count, length);
  std::vector<int64_t> next(count + 1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint32_t row = place[static_cast<size_t>(bins[i])];
    room[row] -= sizes[i];
    ++next[row + 1];
  }
  PackedRows rows;
  for (size_t row = 0; row < count; ++row) next[row + 1] += room[row] > 0 ? 1 : 0;
  std::partial_sum(next.begin(), next.end(), next.begin());
  rows.edges = next;
  rows.segments.resize(static_cast<size_t>(next.back()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    Segment& segment =
        rows.segments[static_cast<size_t>(next[place[static_cast<size_t>(bins[i])]]++)];
    if (whole) {
      const uint32_t row = documents.rows[i];
      segment = {row, 0, sizes[i], documents.lengths[row]};
    } else {
      segment = parts[i];
    }
  }
  for (size_t row = 0; row < count; ++row) {
    if (room[row] == 0) continue;
    rows.segments[static_cast<size_t>(next[row])] =
        Segment{Segment::kPadding, 0, static_cast<uint32_t>(room[row]), 0};
  }
  return rows;
}

PlanArray<Segment> SplitWindow(const Documents& documents, uint32_t length, int64_t first,
                               int64_t start, int64_t stop) {
  PlanArray<Segment> segments;
  segments.reserve(documents.rows.size() +
                   static_cast<size_t>(std::max<int64_t>(0, stop - start)) / length + 1);
  int64_t row_end = ((first + start) / length + 1) * length - first;
  int64_t begin = 0;  // of a document
  for (const uint32_t row : documents.rows) {
    if (begin >= stop) break;
    const int64_t end = begin + documents.kept[row];
    for (int64_t at = std::max(begin, start); at < std::min(end, stop);) {
      const int64_t cut = std::min({end, stop, row_end});
      segments.push_back({row, static_cast<uint32_t>(at - begin),
                          static_cast<uint32_t>(cut - at), documents.lengths[row]});
      if (cut == row_end) row_end += length;
      at = cut;
    }
    begin = end;
  }
  return segments;
}

Documents DocumentsOf(const DocumentWindows& windows, size_t window, Shuffle* order) {
  const int64_t start = windows.edges[window];
  const auto rows = static_cast<size_t>(windows.edges[window + 1] - start);
  const auto before = static_cast<size_t>(start);
  if (windows.keys.empty()) {
    order->rows.resize(rows);
    std::iota(order->rows.begin(), order->rows.end(), uint32_t{0});
  } else {
    MakeShuffle(windows.keys[window], static_cast<uint32_t>(rows), order);
  }
  const auto within = [&](int64_t at) {
    return std::min(rows, static_cast<size_t>(std::max<int64_t>(0, at - start)));
  };
  const size_t first = within(windows.first);
  const size_t count = std::max(first, within(windows.stop)) - first;
  return {.rows = std::span(order->rows).subspan(first, count),
          .kept = windows.kept.subspan(before, rows),
          .lengths = windows.lengths.subspan(before, rows)};
}

PackedWindows PackWindows(const DocumentWindows& windows, uint32_t length) {
  PackedWindows packed;
  packed.rows.edges.push_back(0);
  packed.window_rows.push_back(0);
  Shuffle shuffle;
  for (size_t w = 0; w + 1 < windows.edges.size(); ++w) {
    const Documents documents = DocumentsOf(windows, w, &shuffle);
    PackedRows of_window = PackWindow(documents, length, windows.UnitKey(w));
    const auto offset = static_cast<int64_t>(packed.rows.segments.size());
    if (packed.rows.segments.empty()) {
      packed.rows.segments = std::move(of_window.segments);
    } else {
      packed.rows.segments.insert(packed.rows.segments.end(), of_window.segments.begin(),
                                  of_window.segments.end());
    }
    for (size_t row = 1; row < of_window.edges.size(); ++row) {
      packed.rows.edges.push_back(offset + of_window.edges[row]);
    }
    packed.window_rows.push_back(static_cast<int64_t>(packed.rows.edges.size()) - 1);
  }
  return packed;
}

}  // namespace fastload
