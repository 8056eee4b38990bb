// The choice of a stream for a column chunk of a local file, by where the bytes are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fastload/base/byte_range.h"
#include "fastload/fetch/byte_stream.h"
#include "fastload/fetch/remote.h"

namespace fastload {

struct StreamOptions {
  int64_t segment_bytes = 8 << 20;  // bytes of one read
  int64_t priority = 0;             // priority of reads on the I/O executor
  Cancelled cancelled;              // once true, reads that have not begun fail at once
};

// Opens a local file and returns a CachedStream if the page cache holds the bytes, else a
// ChunkStream. `seen_cached` is the `seen` of File::IsCached, passed from one stream to
// the next.
std::shared_ptr<ByteStream> MakeLocalStream(const FetchContext& context, int32_t file,
                                            std::vector<ByteRange> ranges,
                                            const StreamOptions& options,
                                            std::optional<int64_t>* seen_cached);

}  // namespace fastload
