// Readers of one flat column chunk (maximum repetition level 0), front to back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrow/buffer.h"
#include "arrow/memory_pool.h"
#include "fastload/columns.h"
#include "fastload/status.h"
#include "parquet/column_reader.h"
#include "parquet/schema.h"

namespace fastload {

// One column chunk, ready to be decoded. `descr` is borrowed and outlives the reader.
struct ChunkInput {
  int32_t file = 0;  // its index, for what a ColumnSpec says of each file
  std::unique_ptr<parquet::PageReader> pages;
  const parquet::ColumnDescriptor* descr = nullptr;
  int64_t rows = 0;                                        // rows of the row group
  arrow::MemoryPool* pool = arrow::default_memory_pool();  // borrowed; of dictionaries
};

// Decodes fixed-width values, cast to the dtype of the spec, straight to their
// destination. Not thread-safe; may move between threads.
class FixedReader {
 public:
  // `spec` is borrowed and outlives the reader.
  static Result<std::unique_ptr<FixedReader>> Make(ChunkInput input,
                                                   const ColumnSpec* spec);
  virtual ~FixedReader() = default;

  // Passes over `rows` rows; whole pages are skipped without being decompressed.
  virtual Status Skip(int64_t rows) = 0;

  // Decodes `rows` rows to out, out + stride, ...; `stride` is in bytes, at least the
  // item size. `valid`, unless null, receives one byte a row: 1 = not null. Fewer values
  // left than `rows` is an ErrorKind::kCorruptFile.
  virtual Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) = 0;

  // The dictionary that the next row's page has codes of: elements, without gaps, good as
  // long as the reader. Empty where the page holds values themselves.
  virtual Result<std::span<const uint8_t>> Dictionary() = 0;

  // Like Read, but writes base + the code of each row, or `null_code`, and stops early
  // where a page holds values themselves; returns the rows read. The dictionary has at
  // most 2**16 - base entries.
  virtual Result<int64_t> ReadCodes(int64_t rows, uint16_t base, uint16_t null_code,
                                    uint16_t* out, uint8_t* valid) = 0;

  // Index of the data page being read, for Place.
  virtual int64_t page() const = 0;
};

struct ByteView {
  const uint8_t* data = nullptr;
  int64_t size = 0;
};

// Decodes variable-length bytes (BYTE_ARRAY, and FIXED_LEN_BYTE_ARRAY as bytes).
class BytesReader {
 public:
  static Result<std::unique_ptr<BytesReader>> Make(ChunkInput input,
                                                   const ColumnSpec* spec);
  virtual ~BytesReader() = default;

  virtual Status Skip(int64_t rows) = 0;

  // Writes `rows` views to `views`. What they point to stays alive as long as the
  // buffers appended to `owners` and the spec do (pages are copied there, dictionaries
  // once a chunk).
  virtual Status Read(int64_t rows, ByteView* views, uint8_t* valid,
                      std::vector<std::shared_ptr<arrow::Buffer>>* owners) = 0;

  virtual int64_t page() const = 0;
};

}  // namespace fastload
