// A column chunk that is about to be decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/memory_pool.h"
#include "parquet/column_reader.h"
#include "parquet/schema.h"

namespace fastload {

// One column chunk, ready to be decoded. `descr` is borrowed and outlives the reader.
struct ChunkInput {
  int32_t file = 0;  // its index, for what a ColumnSpec says of each file
  std::unique_ptr<parquet::PageReader> pages;
  const parquet::ColumnDescriptor* descr = nullptr;
  int64_t rows = 0;  // rows of the row group, or of the pages that are read of it
  // Of each page, where an index has told; () else.
  std::vector<int64_t> page_rows;
  // Values of the chunk, nulls and empty lists too, as the footer tells.
  int64_t levels = INT64_MAX;
  arrow::MemoryPool* pool = arrow::default_memory_pool();  // borrowed; of dictionaries
};

}  // namespace fastload
