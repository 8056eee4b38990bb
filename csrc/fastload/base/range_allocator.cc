#include "fastload/base/range_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace fastload {

RangeAllocator::RangeAllocator(int64_t begin, int64_t end, int64_t segment_bytes)
    : segment_bytes_(segment_bytes) {
  if (begin < end) free_.emplace(begin, end);
}

int64_t RangeAllocator::Fit(int64_t start, int64_t bytes) const {
  const int64_t left = segment_bytes_ - start % segment_bytes_;
  return bytes > segment_bytes_ || bytes <= left ? start : start + left;
}

int64_t RangeAllocator::Allocate(int64_t bytes) {
  const auto found = std::ranges::find_if(free_, [this, bytes](const auto& range) {
    return Fit(range.first, bytes) + bytes <= range.second;
  });
  if (found == free_.end()) return -1;
  const auto [begin, end] = *found;
  const int64_t start = Fit(begin, bytes);
  const auto used = used_.emplace(start, start + bytes).first;
  if (begin == start && start + bytes == end) {
    free_.erase(found);
  } else if (begin == start) {
    auto rest = free_.extract(found);
    rest.key() = start + bytes;
    free_.insert(std::move(rest));
  } else {
    try {
      if (start + bytes < end) free_.emplace(start + bytes, end);
    } catch (...) {
      used_.erase(used);
      throw;
    }
    found->second = start;
  }
  return start;
}

void RangeAllocator::Free(int64_t start) noexcept {
  auto range = used_.extract(start);
  if (range.empty()) return;
  auto next = free_.lower_bound(start);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->second == start) {
      range.key() = before->first;
      free_.erase(before);
    }
  }
  if (next != free_.end() && next->first == range.mapped()) {
    range.mapped() = next->second;
    free_.erase(next);
  }
  free_.insert(std::move(range));
}

}  // namespace fastload
