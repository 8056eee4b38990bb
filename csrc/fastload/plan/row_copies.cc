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

int64_t CopiesWalk::NextRow() {
  while (row_ < copies_.rows && copies_.counts[row_] == 0) ++row_;
  return row_;
}

bool CopiesWalk::Enter() {
  if (NextRow() == copies_.rows) return false;
  left_ = copies_.counts[row_++];
  return true;
}

void CopiesWalk::Skip(int64_t n) {
  const int64_t taken = std::min(n, left_);
  left_ -= taken;
  n -= taken;
  while (n > 0 && row_ < copies_.rows) {
    const int64_t count = copies_.counts[row_++];
    left_ = std::max<int64_t>(0, count - n);
    n -= count - left_;
  }
}

CopiesWalk::Span CopiesWalk::Next(int64_t most, int64_t most_rows, bool gaps,
                                  uint16_t* positions) {
  Span span{.row = NextRow()};
  left_ = 0;
  if (row_ == copies_.rows) return span;
  const uint16_t* const counts = copies_.counts + row_;
  const int64_t end = std::min(most_rows, copies_.rows - row_);
  const int64_t most_single = std::min(most, end);
  int64_t single = 0;
  while (single < most_single && counts[single] == 1) ++single;
  if (single == most_single || single >= kSingleRows) {
    span.rows = span.copies = single;
    row_ += single;
    return span;
  }
  span.single = false;
  const int64_t limit = std::min(most, kBlockCopies);
  int64_t row = 0;
  int64_t copies = 0;
  int64_t filled = 0;  // the rows up to the last row with copies
  for (; row < end && copies < limit; ++row) {
    const int64_t count = counts[row];
    if (count == 0) {
      if (!gaps || row - filled >= kGapRows) break;
      continue;
    }
    filled = row + 1;
    const int64_t taken = std::min(count, limit - copies);
    const auto position = static_cast<uint16_t>(row);
    uint16_t* const out = positions + copies;
    if (taken <= 4) {
      out[0] = out[1] = out[2] = out[3] = position;
    } else {
      std::fill_n(out, taken, position);
    }
    copies += taken;
    left_ = count - taken;
  }
  span.rows = filled;
  span.copies = copies;
  row_ += filled;
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
