// The slots from which a part of a window takes its rows, in runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fastload/collate/window.h"

namespace fastload {

// The rows decoded at once before they are dealt to their slots; a block stays in the L1
// cache.
inline constexpr int64_t kBlockRows = 1024;

// Output rows [first, first + rows) of a part, which take the slots bucket + within[i].
// Without a shuffle `within` is null, and the rows take the slots from `bucket` on.
struct SlotRun {
  int64_t first;
  int64_t rows;
  int64_t bucket;
  const uint16_t* within;
  int64_t ahead;  // slot to prefetch, where the next bucket is gathered; -1: none
};

template <typename Fn>
void ForEachRun(const Window& window, const Part& part, const Fn& fn) {
  if (!window.shuffled) {
    fn(SlotRun{.first = 0,
               .rows = part.rows,
               .bucket = part.first,
               .within = nullptr,
               .ahead = 0});
    return;
  }
  const Shuffle& shuffle = window.shuffle;
  int64_t done = 0;
  int64_t output = 0;  // output row of the take's first position
  for (const Take& take : window.takes) {
    const int64_t skipped = std::max<int64_t>(0, part.first + done - output);
    output += take.stop - take.start;
    int64_t position = take.start + skipped;
    while (position < take.stop && done < part.rows) {
      const auto above = std::upper_bound(shuffle.bucket_starts.begin(),
                                          shuffle.bucket_starts.end(), position);
      const int64_t end = std::min<int64_t>(*above, take.stop);
      const int64_t rows = std::min(end - position, part.rows - done);
      const int64_t b = above - shuffle.bucket_starts.begin() - 1;
      const int64_t bucket = shuffle.SlotStart(b);
      // While this bucket is gathered, the same offset of the next bucket is prefetched;
      // the last bucket has no next bucket.
      const int64_t next = shuffle.SlotStart(b + 1) + position - *(above - 1);
      const bool more = next + rows <= shuffle.slot_count();
      fn(SlotRun{.first = done,
                 .rows = rows,
                 .bucket = bucket,
                 .within = shuffle.within.data() + position,
                 .ahead = more ? next : -1});
      position += rows;
      done += rows;
    }
  }
}

}  // namespace fastload
