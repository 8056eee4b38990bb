// Pages of column chunks that are compressed with Snappy.
#pragma once

#include <memory>

#include "arrow/memory_pool.h"
#include "parquet/column_reader.h"

namespace fastload {

// The pages of `pages`, which has been opened as if they were not compressed,
// decompressed into memory of `pool`; a page is good until the next one. Damaged ones
// throw a ParquetException, as libparquet's own do.
std::unique_ptr<parquet::PageReader> DecompressSnappyPages(
    std::unique_ptr<parquet::PageReader> pages, arrow::MemoryPool* pool);

}  // namespace fastload
