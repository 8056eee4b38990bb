#include "fastload/plan/row_copies.h"

#include <algorithm>
#include <array>

#include "fastload/base/clones.h"
#include "fastload/base/stream_key.h"

namespace fastload {
namespace {

// From this number of single rows on, a span ends before and after them, because they are
// read straight to where they go.
constexpr int64_t kSingleRows = 48;
// Skipping a gap of this many rows costs less than decoding them.
constexpr int64_t kGapRows = 128;
// Rows whose copies are drawn at once; what is computed of them stays in the L1 cache.
constexpr int64_t kDrawnRows = 512;

// The compiler makes clones of functions, but not of templates. The mean numbers of
// copies go through memory, so that every processor rounds the products in the same way.
// NOLINTBEGIN(bugprone-macro-parentheses): the second arguments are types
#define FASTLOAD_EXPECT(Name, Weight)                                       \
  FASTLOAD_CLONES void Name(const Weight* weights, int64_t n, double scale, \
                            double* expected) {                             \
    for (int64_t i = 0; i < n; ++i) {                                       \
      expected[i] = static_cast<double>(weights[i]) * scale;                \
    }                                                                       \
  }
FASTLOAD_EXPECT(ExpectCopies, float)
FASTLOAD_EXPECT(ExpectCopies, double)
#undef FASTLOAD_EXPECT
// NOLINTEND(bugprone-macro-parentheses)

// Draws copies, from draw `first` of a stream on, and returns their sum.
FASTLOAD_CLONES int32_t CountCopies(const double* expected, int64_t n, uint64_t key,
                                    uint64_t first, uint16_t* counts) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    // The numbers are not negative, so that the conversion rounds down.
    const auto whole = static_cast<int32_t>(expected[i]);
    const auto drawn =
        static_cast<int64_t>(StreamValue(key, first + static_cast<uint64_t>(i)) >> 11);
    const bool more =
        static_cast<double>(drawn) * 0x1p-53 < expected[i] - static_cast<double>(whole);
    const int32_t count = whole + static_cast<int32_t>(more);
    counts[i] = static_cast<uint16_t>(count);
    sum += count;
  }
  return sum;
}

// Returns true if the numbers count up from `first`.
FASTLOAD_CLONES bool CountsUp(const uint16_t* numbers, int64_t n, uint16_t first) {
  uint16_t differs = 0;
  for (int64_t i = 0; i < n; ++i) {
    differs |= numbers[i] ^ static_cast<uint16_t>(first + i);
  }
  return differs == 0;
}

// Returns how many of the numbers, at most `most`, count up from `first`.
int64_t CountingUp(const uint16_t* numbers, int64_t most, uint16_t first) {
  constexpr int64_t kAtOnce = 128;
  int64_t n = 0;
  while (n < std::min(most, kSingleRows) && numbers[n] == first + n) ++n;
  if (n < kSingleRows) return n;
  while (n + kAtOnce <= most &&
         CountsUp(numbers + n, kAtOnce, static_cast<uint16_t>(first + n))) {
    n += kAtOnce;
  }
  while (n < most && numbers[n] == first + n) ++n;
  return n;
}

}  // namespace

bool RowCopies::Has(int64_t row) const {
  const int64_t stretch = row / kStretchRows;
  return std::binary_search(rows + (stretch == 0 ? 0 : ends[stretch - 1]),
                            rows + ends[stretch],
                            static_cast<uint16_t>(row % kStretchRows));
}

void GroupCopies::Expand() {
  // A call that found no memory may be made again.
  copies_ = 0;
  ends_.clear();
  for (const uint16_t count : counts_) copies_ += count;
  // Most rows are written as kAtOnce copies, of which the next rows overwrite the
  // surplus.
  constexpr size_t kAtOnce = 8;
  rows_.resize(static_cast<size_t>(copies_) + kAtOnce);
  uint16_t* out = rows_.data();
  for (size_t first = 0; first < counts_.size(); first += RowCopies::kStretchRows) {
    const size_t rows = std::min<size_t>(RowCopies::kStretchRows, counts_.size() - first);
    for (size_t row = 0; row < rows; ++row) {
      const auto number = static_cast<uint16_t>(row);
      const uint16_t count = counts_[first + row];
      std::fill_n(out, kAtOnce, number);
      if (count > kAtOnce) std::fill_n(out, count, number);
      out += count;
    }
    ends_.push_back(out - rows_.data());
  }
}

RowCopies GroupCopies::rows() {
  std::call_once(expanded_, [this] { Expand(); });
  return {.rows = rows_.data(), .ends = ends_.data(), .count = copies_};
}

std::shared_ptr<GroupCopies> CopiesByGroup::Of(std::span<const uint16_t> counts) {
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<GroupCopies>& known = groups_[counts.data()];
  std::shared_ptr<GroupCopies> group = known.lock();
  if (group == nullptr) {
    group = std::make_shared<GroupCopies>(counts);
    known = group;
  }
  return group;
}

int64_t CopiesWalk::Same(int64_t most) const {
  const uint16_t* const first = copies_.rows + at_;
  const uint16_t* const last = first + std::min(most, end() - at_);
  return std::find_if(first, last, [&](uint16_t row) { return row != *first; }) - first;
}

CopiesWalk::Span CopiesWalk::Next(int64_t most, int64_t most_rows, bool gaps) {
  if (done()) return {};
  const uint16_t* const rows = copies_.rows + at_;
  const uint16_t first = rows[0];
  Span span{.row = row(), .positions = rows};
  const int64_t in_stretch = end() - at_;
  const int64_t left = std::min(most, in_stretch);
  const int64_t most_single = std::min(left, most_rows);
  int64_t single = CountingUp(rows, most_single, first);
  // A row with more copies is not single.
  if (single < in_stretch && rows[single] == rows[single - 1]) --single;
  if (single == most_single || single >= kSingleRows) {
    span.rows = span.copies = single;
    Skip(single);
    return span;
  }
  span.single = false;
  int64_t copies = std::min(left, kBlockCopies);
  const int64_t end = first + most_rows;
  if (rows[copies - 1] >= end) copies = std::lower_bound(rows, rows + copies, end) - rows;
  // Rows in gaps are decoded unless there are too many.
  const int64_t most_gap = gaps ? kGapRows : 1;
  if (!gaps || rows[copies - 1] - first > 4 * copies) {
    int64_t n = 1;
    while (n < copies && rows[n] - rows[n - 1] <= most_gap) ++n;
    copies = n;
  }
  span.copies = copies;
  span.rows = rows[copies - 1] - first + 1;
  Skip(copies);
  return span;
}

template <typename Weight>
void DrawCopies(std::span<const Weight> weights, std::span<const int64_t> edges,
                double scale, uint64_t key, uint16_t* counts, int64_t* rows) {
  std::array<double, kDrawnRows> expected;
  for (size_t group = 0; group + 1 < edges.size(); ++group) {
    int64_t sum = 0;
    for (int64_t at = edges[group]; at < edges[group + 1]; at += kDrawnRows) {
      const int64_t n = std::min(kDrawnRows, edges[group + 1] - at);
      ExpectCopies(weights.data() + at, n, scale, expected.data());
      sum += CountCopies(expected.data(), n, key, static_cast<uint64_t>(at), counts + at);
    }
    rows[group] = sum;
  }
}

template void DrawCopies(std::span<const float>, std::span<const int64_t>, double,
                         uint64_t, uint16_t*, int64_t*);
template void DrawCopies(std::span<const double>, std::span<const int64_t>, double,
                         uint64_t, uint16_t*, int64_t*);

}  // namespace fastload
