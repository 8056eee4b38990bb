// Column chunks of a file: the range of their bytes, and their pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/io/interfaces.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/source/file.h"
#include "parquet/types.h"

namespace fastload {

// What the footer says of a column chunk that is to be read.
struct ChunkFacts {
  ByteRange range;         // dictionary page included
  int64_t rows = 0;        // of the row group
  int64_t levels = 0;      // values; nulls and empty lists count
  int64_t compressed = 0;  // bytes of the pages in the file
  int64_t page_bytes = 0;  // bytes of the decompressed pages, headers included
  int64_t most_bytes = 0;  // that a decompressed page may have
  parquet::Compression::type codec = parquet::Compression::UNCOMPRESSED;
  // The file's writer marked compressed V2 pages as not compressed.
  bool always_compressed = false;
};

Result<ChunkFacts> FactsOf(const FileSpec& file, int32_t row_group, int32_t leaf);

// Returns the range of a column chunk, dictionary page included.
Result<ByteRange> ChunkRange(const FileSpec& file, int32_t row_group, int32_t leaf);

struct OpenOptions {
  bool verify_crc = false;          // compare pages with their checksums, if any
  bool arrow_decompresses = false;  // let Arrow decompress Snappy, too
};

// Returns the pages and the description of a column chunk whose bytes come from `stream`.
// Pages are decompressed into memory of `pool`.
Result<ChunkInput> OpenChunk(const FileSpec& file, const ChunkFacts& chunk, int32_t leaf,
                             std::shared_ptr<arrow::io::InputStream> stream,
                             arrow::MemoryPool* pool, OpenOptions options = {});
Result<ChunkInput> OpenChunk(const FileSpec& file, int32_t row_group, int32_t leaf,
                             std::shared_ptr<arrow::io::InputStream> stream,
                             arrow::MemoryPool* pool, OpenOptions options = {});

// Returns the first row of each row group, counted in the file.
std::vector<int64_t> RowGroupStarts(const FileSpec& file);

}  // namespace fastload
