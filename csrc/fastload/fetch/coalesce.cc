#include "fastload/fetch/coalesce.h"

#include <algorithm>

namespace fastload {
namespace {

// Returns the non-empty ranges in order, with overlapping or touching ranges joined.
std::vector<ByteRange> Join(std::vector<ByteRange> ranges) {
  std::ranges::sort(ranges, {}, &ByteRange::offset);
  std::vector<ByteRange> joined;
  for (const ByteRange& range : ranges) {
    if (range.bytes == 0) continue;
    const int64_t end = range.offset + range.bytes;
    if (!joined.empty() && range.offset <= joined.back().offset + joined.back().bytes) {
      ByteRange& last = joined.back();
      last.bytes = std::max(last.bytes, end - last.offset);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

std::vector<ByteRange> Coalesce(std::vector<ByteRange> ranges, int64_t hole_bytes,
                                int64_t request_bytes) {
  std::vector<ByteRange> requests;
  for (ByteRange range : Join(std::move(ranges))) {
    // The part of the range that the last request takes: the beginning, if near enough.
    if (!requests.empty()) {
      ByteRange& last = requests.back();
      const int64_t end = last.offset + last.bytes;
      const int64_t room = last.offset + request_bytes - range.offset;
      if (range.offset - end <= hole_bytes && room > 0) {
        const int64_t taken = std::min(room, range.bytes);
        last.bytes = range.offset + taken - last.offset;
        range.offset += taken;
        range.bytes -= taken;
      }
    }
    while (range.bytes > 0) {
      const int64_t taken = std::min(request_bytes, range.bytes);
      requests.push_back({range.offset, taken});
      range.offset += taken;
      range.bytes -= taken;
    }
  }
  return requests;
}

}  // namespace fastload
