#include "fastload/fetch/local_stream.h"

#include <algorithm>
#include <utility>

#include "fastload/fetch/cached_stream.h"
#include "fastload/fetch/fetch.h"

namespace fastload {

std::shared_ptr<ByteStream> MakeLocalStream(const FetchContext& context, int32_t file,
                                            std::vector<ByteRange> ranges,
                                            const StreamOptions& options,
                                            std::optional<int64_t>* seen_cached) {
  // A failure to open the file is reported by the stream's first read.
  if (auto opened = context.files->Open(file); opened.ok()) {
    const auto cached = [&](const ByteRange& r) {
      return (*opened)->IsCached(r, seen_cached);
    };
    // Of many ranges, some tell of all: a look costs as much as a read of a small page.
    constexpr size_t kLooks = 8;
    const size_t step = (ranges.size() + kLooks - 1) / kLooks;
    bool at_hand = true;
    for (size_t i = 0; at_hand && i < ranges.size(); i += step) {
      at_hand = cached(ranges[i]);
    }
    if (at_hand) {
      const int64_t most = std::min(TotalBytes(ranges), 2 * options.segment_bytes);
      return std::make_shared<CachedStream>(context, file, *opened, std::move(ranges),
                                            most, options.cancelled);
    }
  }
  return std::make_shared<ChunkStream>(context, file, std::move(ranges),
                                       options.segment_bytes, options.priority,
                                       options.cancelled);
}

}  // namespace fastload
