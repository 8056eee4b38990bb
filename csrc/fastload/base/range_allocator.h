// Hands out ranges of a space of bytes, and takes them back.
#pragma once

#include <cstdint>
#include <map>

namespace fastload {

// Not thread-safe. First fit, from the front: what is in use stays together. A range that
// fits in a segment, which begin at multiples of their size, lies in one.
class RangeAllocator {
 public:
  // Over [begin, end).
  RangeAllocator(int64_t begin, int64_t end, int64_t segment_bytes);

  // The start of `bytes` (more than 0) bytes that nobody has; -1 when there are none.
  int64_t Allocate(int64_t bytes);
  void Free(int64_t start, int64_t bytes);

 private:
  // Where `bytes` bytes may begin, from `start` on.
  int64_t Fit(int64_t start, int64_t bytes) const;

  const int64_t segment_bytes_;
  std::map<int64_t, int64_t> free_;  // start -> end; no two of them touch
};

}  // namespace fastload
