// The memory of decompressed pages, which no page header may exceed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "arrow/memory_pool.h"
#include "parquet/column_reader.h"
#include "parquet/types.h"

namespace fastload {

// Returns the most bytes that `bytes` bytes of the codec can decompress to, or INT64_MAX
// for a codec without a known limit.
int64_t MostExpanded(parquet::Compression::type codec, int64_t bytes);

// Returns the most bytes of one decompressed page of a column chunk of `compressed`
// bytes that has `uncompressed` bytes by its footer.
int64_t MostPageBytes(parquet::Compression::type codec, int64_t compressed,
                      int64_t uncompressed);

// Opens pages that libparquet decompresses into `pool`. libparquet allocates whatever
// size a page header states before it looks at the page; a page of more than
// `most_bytes` bytes is an ErrorKind::kCorruptFile, and gets no memory.
std::unique_ptr<parquet::PageReader> LimitPages(
    arrow::MemoryPool* pool, int64_t most_bytes,
    const std::function<std::unique_ptr<parquet::PageReader>(arrow::MemoryPool*)>& open);

}  // namespace fastload
