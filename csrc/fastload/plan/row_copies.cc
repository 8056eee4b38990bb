#include "fastload/plan/row_copies.h"

#include <algorithm>

#include "fastload/base/stream_key.h"

namespace fastload {
namespace {

// From this number of single rows on, a span ends before and after them, because they are
// read straight to where they go.
constexpr int64_t kSingleRows = 48;
// Skipping a gap of this many rows costs less than decoding them.
constexpr int64_t kGapRows = 128;

}  // namespace

void AppendRowsOfCopies(std::span<const uint16_t> counts, std::vector<uint32_t>* rows) {
  size_t copies = 0;
  for (const uint16_t count : counts) copies += count;
  const size_t first = rows->size();
  // Most rows are written as kAtOnce copies, of which the next rows overwrite the
  // surplus.
  constexpr size_t kAtOnce = 8;
  rows->resize(first + copies + kAtOnce);
  uint32_t* out = rows->data() + first;
  for (size_t row = 0; row < counts.size(); ++row) {
    const auto number = static_cast<uint32_t>(row);
    std::fill_n(out, kAtOnce, number);
    if (counts[row] > kAtOnce) std::fill_n(out, counts[row], number);
    out += counts[row];
  }
  rows->resize(first + copies);
}

int64_t CopiesWalk::Same(int64_t most) const {
  const uint32_t* const first = copies_.rows + at_;
  const uint32_t* const end = first + std::min(most, copies_.count - at_);
  return std::find_if(first, end, [&](uint32_t row) { return row != *first; }) - first;
}

CopiesWalk::Span CopiesWalk::Next(int64_t most, int64_t most_rows, bool gaps,
                                  uint16_t* positions) {
  if (done()) return {};
  const uint32_t* const rows = copies_.rows + at_;
  const uint32_t first = rows[0];
  Span span{.row = first};
  const int64_t left = std::min(most, copies_.count - at_);
  const int64_t most_single = std::min(left, most_rows);
  int64_t single = 1;
  while (single < most_single && rows[single] == first + single) ++single;
  // A row with more copies is not single.
  if (single < copies_.count - at_ && rows[single] == rows[single - 1]) --single;
  if (single == most_single || single >= kSingleRows) {
    span.rows = span.copies = single;
    at_ += single;
    return span;
  }
  span.single = false;
  int64_t copies = std::min(left, kBlockCopies);
  const auto end = static_cast<uint32_t>(first + most_rows);
  if (rows[copies - 1] >= end) copies = std::lower_bound(rows, rows + copies, end) - rows;
  // Rows in gaps are decoded unless there are too many.
  const int64_t most_gap = gaps ? kGapRows : 1;
  if (!gaps || rows[copies - 1] - first > 4 * copies) {
    int64_t n = 1;
    while (n < copies && rows[n] - rows[n - 1] <= most_gap) ++n;
    copies = n;
  }
  for (int64_t i = 0; i < copies; ++i)
    positions[i] = static_cast<uint16_t>(rows[i] - first);
  span.copies = copies;
  span.rows = rows[copies - 1] - first + 1;
  at_ += copies;
  return span;
}

template <typename Weight, typename Count>
void DrawCopies(std::span<const Weight> weights, std::span<const int64_t> edges,
                double scale, uint64_t key, Count* counts, int64_t* rows) {
  for (size_t group = 0; group + 1 < edges.size(); ++group) {
    int64_t sum = 0;
    for (auto i = static_cast<size_t>(edges[group]);
         i < static_cast<size_t>(edges[group + 1]); ++i) {
      const double expected = static_cast<double>(weights[i]) * scale;
      // The numbers are not negative, so that the conversion rounds down.
      const auto whole = static_cast<int32_t>(expected);
      const uint64_t drawn = StreamValue(key, i) >> 11;
      const bool more =
          static_cast<double>(drawn) * 0x1p-53 < expected - static_cast<double>(whole);
      const int32_t count = whole + static_cast<int32_t>(more);
      counts[i] = static_cast<Count>(count);
      sum += count;
    }
    rows[group] = sum;
  }
}

template void DrawCopies(std::span<const float>, std::span<const int64_t>, double,
                         uint64_t, uint8_t*, int64_t*);
template void DrawCopies(std::span<const float>, std::span<const int64_t>, double,
                         uint64_t, uint16_t*, int64_t*);
template void DrawCopies(std::span<const double>, std::span<const int64_t>, double,
                         uint64_t, uint8_t*, int64_t*);
template void DrawCopies(std::span<const double>, std::span<const int64_t>, double,
                         uint64_t, uint16_t*, int64_t*);

}  // namespace fastload
