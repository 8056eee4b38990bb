#include "fastload/fetch/byte_stream.h"

#include <numeric>

namespace fastload {

int64_t TotalBytes(const std::vector<ByteRange>& ranges) {
  return std::accumulate(
      ranges.begin(), ranges.end(), int64_t{0},
      [](int64_t sum, const ByteRange& range) { return sum + range.bytes; });
}

Status ReadRanges(const FetchContext& context, const File& file,
                  const std::vector<ByteRange>& ranges, int64_t position, int64_t bytes,
                  uint8_t* out) {
  const WorkTimer timer(&context.counters->read_ns);
  return ForEachPart(ranges, position, bytes, [&](const ByteRange& part) {
    ARROW_RETURN_NOT_OK(file.ReadAt(part.offset, part.bytes, out));
    context.counters->read_requests += 1;
    context.counters->read_bytes += part.bytes;
    out += part.bytes;
    return Status::OK();
  });
}

}  // namespace fastload
