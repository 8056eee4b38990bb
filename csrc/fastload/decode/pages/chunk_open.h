// Column chunks of a file: where their bytes lie, and their pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/io/interfaces.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/source/file.h"

namespace fastload {

// The bytes of a column chunk, dictionary page included.
Result<ByteRange> ChunkRange(const FileSpec& file, int32_t row_group, int32_t leaf);

struct OpenOptions {
  bool verify_crc = false;          // pages are compared with their checksums, if any
  bool arrow_decompresses = false;  // Snappy, too
};

// Pages and description of a column chunk whose bytes come from `stream`; they are
// decompressed into memory of `pool`.
Result<ChunkInput> OpenChunk(const FileSpec& file, int32_t row_group, int32_t leaf,
                             std::shared_ptr<arrow::io::InputStream> stream,
                             arrow::MemoryPool* pool, OpenOptions options = {});

// First row, in its file, of each row group.
std::vector<int64_t> RowGroupStarts(const FileSpec& file);

}  // namespace fastload
