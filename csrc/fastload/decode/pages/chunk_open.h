// Column chunks of a file: the range of their bytes, and their pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/io/interfaces.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/source/file.h"

namespace fastload {

// Returns the range of a column chunk, dictionary page included.
Result<ByteRange> ChunkRange(const FileSpec& file, int32_t row_group, int32_t leaf);

struct OpenOptions {
  bool verify_crc = false;          // compare pages with their checksums, if any
  bool arrow_decompresses = false;  // let Arrow decompress Snappy, too
};

// Returns the pages and the description of a column chunk whose bytes come from `stream`.
// Pages are decompressed into memory of `pool`.
Result<ChunkInput> OpenChunk(const FileSpec& file, int32_t row_group, int32_t leaf,
                             std::shared_ptr<arrow::io::InputStream> stream,
                             arrow::MemoryPool* pool, OpenOptions options = {});

// Returns the first row of each row group, counted in the file.
std::vector<int64_t> RowGroupStarts(const FileSpec& file);

}  // namespace fastload
