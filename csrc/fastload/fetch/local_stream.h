// The stream of a column chunk of a local file, of the kind that suits where its bytes
// are.
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
  int64_t segment_bytes = 8 << 20;  // of one read
  int64_t priority = 0;             // of reads on the I/O executor
  Cancelled cancelled;              // once true, reads that have not begun fail at once
};

// Of a local file: a CachedStream where the page cache has the bytes, else a ChunkStream.
// Opens the file. `seen_cached`: as File::IsCached has it, from one stream to the next.
std::shared_ptr<ByteStream> MakeLocalStream(const FetchContext& context, int32_t file,
                                            std::vector<ByteRange> ranges,
                                            const StreamOptions& options,
                                            std::optional<int64_t>* seen_cached);

}  // namespace fastload
