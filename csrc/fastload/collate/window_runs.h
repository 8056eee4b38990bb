// The rows, or the slots, from which a part of a window takes its rows, in runs.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "fastload/collate/window.h"

namespace fastload {

// The rows decoded at once before they are dealt to their slots; a block stays in the L1
// cache.
inline constexpr int64_t kBlockRows = 1024;

// Output rows [first, first + rows) of a part, which take the window rows index[i].
// Without a shuffle `index` is null, and they take the window rows from `row` on.
struct RowRun {
  int64_t first;
  int64_t rows;
  int64_t row;
  const uint32_t* index;
};

// Output rows [first, first + rows) of a part, which take the slots bucket + within[i].
struct SlotRun {
  int64_t first;
  int64_t rows;
  int64_t bucket;
  const uint16_t* within;
};

template <typename Fn>
void ForEachRowRun(const Window& window, const Part& part, const Fn& fn) {
  if (!window.shuffled) {
    fn(RowRun{.first = 0, .rows = part.rows, .row = part.first, .index = nullptr});
    return;
  }
  int64_t done = 0;
  int64_t output = 0;  // output row of the take's first position
  for (const Take& take : window.takes) {
    const int64_t skipped = std::max<int64_t>(0, part.first + done - output);
    output += take.stop - take.start;
    const int64_t position = take.start + skipped;
    const int64_t rows = std::min(take.stop - position, part.rows - done);
    if (rows <= 0) continue;
    fn(RowRun{.first = done,
              .rows = rows,
              .row = 0,
              .index = window.shuffle.rows.data() + position});
    done += rows;
  }
  assert(done == part.rows);
}

// Does the same by slots; the window is shuffled. A run stays in one bucket.
template <typename Fn>
void ForEachSlotRun(const Window& window, const Part& part, const Fn& fn) {
  const Shuffle& shuffle = window.shuffle;
  ForEachRowRun(window, part, [&](const RowRun& run) {
    int64_t position = run.index - shuffle.rows.data();
    for (int64_t done = 0; done < run.rows;) {
      const auto above = std::upper_bound(shuffle.bucket_starts.begin(),
                                          shuffle.bucket_starts.end(), position);
      const int64_t b = above - shuffle.bucket_starts.begin() - 1;
      const int64_t rows = std::min<int64_t>(*above - position, run.rows - done);
      fn(SlotRun{.first = run.first + done,
                 .rows = rows,
                 .bucket = TwoSteps::SlotStart(shuffle, b),
                 .within = window.two_steps->within.data() + position});
      position += rows;
      done += rows;
    }
  });
}

}  // namespace fastload
