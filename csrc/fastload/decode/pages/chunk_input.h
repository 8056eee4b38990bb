// A column chunk that is about to be decoded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/memory_pool.h"
#include "fastload/decode/pages/data_pages.h"
#include "parquet/column_reader.h"
#include "parquet/schema.h"

namespace fastload {

// One column chunk, ready to be decoded. `descr` is borrowed, and outlives the reader.
struct ChunkInput {
  int32_t file = 0;  // index into the values by file of a ColumnSpec
  std::unique_ptr<parquet::PageReader> pages;
  const parquet::ColumnDescriptor* descr = nullptr;
  int64_t rows = 0;  // rows of the row group, or of the pages that are read
  // Rows of each page if an offset index was read, else empty.
  std::vector<int64_t> page_rows;
  // Values of the chunk by the footer; nulls and empty lists count.
  int64_t levels = INT64_MAX;
  // Bytes of the decompressed pages by the footer, headers included.
  int64_t page_bytes = 0;
  bool compressed = false;
  DictionaryPlace dictionary;
  // Borrowed; counts the data pages that are decompressed. Null: they are not counted.
  std::atomic<int64_t>* decoded_pages = nullptr;
  // Borrowed; memory of dictionaries.
  arrow::MemoryPool* pool = arrow::default_memory_pool();
};

}  // namespace fastload
