// The pages of column chunks that are compressed with Snappy.
#pragma once

#include <cstdint>
#include <memory>

#include "arrow/memory_pool.h"
#include "parquet/column_reader.h"

namespace fastload {

// Decompresses the pages of `pages`, which was opened as if the pages were not
// compressed, into memory of `pool`. A page is valid until the next page is read. Damaged
// pages, and pages of more than `most_bytes` bytes after decompression, throw a
// ParquetException, like libparquet's own pages.
std::unique_ptr<parquet::PageReader> DecompressSnappyPages(
    std::unique_ptr<parquet::PageReader> pages, arrow::MemoryPool* pool,
    int64_t most_bytes = INT64_MAX);

}  // namespace fastload
