// An allocator of ranges of a space of bytes.
#pragma once

#include <cstdint>
#include <map>

namespace fastload {

// A first-fit allocator, from the front, so that the used ranges stay close together.
// Segments begin at multiples of their size; a range that fits into one segment never
// crosses into another. Not thread-safe.
class RangeAllocator {
 public:
  // Allocates from the bytes [begin, end).
  RangeAllocator(int64_t begin, int64_t end, int64_t segment_bytes);

  // Returns the start of `bytes` (more than 0) free bytes, or -1 if no range is large
  // enough. Throws std::bad_alloc, and changes nothing, if there is no memory.
  int64_t Allocate(int64_t bytes);
  // Frees the range that Allocate returned as `start`, and does nothing for any other
  // start. Takes no memory.
  void Free(int64_t start) noexcept;

 private:
  // Returns the first position from `start` on where `bytes` bytes may begin.
  int64_t Fit(int64_t start, int64_t bytes) const;

  const int64_t segment_bytes_;
  std::map<int64_t, int64_t> free_;  // start -> end; no two ranges touch
  std::map<int64_t, int64_t> used_;  // start -> end; Free moves its nodes to free_
};

}  // namespace fastload
