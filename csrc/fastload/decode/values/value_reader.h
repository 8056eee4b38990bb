// Interfaces of readers of one column chunk's values, front to back, row by row.
#pragma once

#include <cstdint>
#include <span>

#include "fastload/base/byte_arena.h"
#include "fastload/base/status.h"
#include "fastload/decode/values/byte_view.h"

namespace fastload {

// Decodes fixed-width values, cast to the dtype of the spec, straight to their
// destination. Not thread-safe; may move between threads.
class FixedReader {
 public:
  virtual ~FixedReader() = default;

  // Passes over `rows` rows; whole pages are skipped without being decompressed.
  virtual Status Skip(int64_t rows) = 0;

  // Decodes `rows` rows to out, out + stride, ...; `stride` is in bytes, at least the
  // item size. `valid`, unless null, receives one byte a row: 1 = not null. Fewer values
  // left than `rows` is an ErrorKind::kCorruptFile. The error of one row, be it null or
  // not of the dtype, has its number in the row group (RowOf).
  virtual Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) = 0;

  // The dictionary that the next row's page has codes of: elements, without gaps, good as
  // long as the reader. Empty where the page holds values themselves; lists of a fixed
  // size have no codes of rows.
  virtual Result<std::span<const uint8_t>> Dictionary() {
    return std::span<const uint8_t>();
  }

  // How codes are written.
  struct Codes {
    int64_t bytes = 2;       // of each: 1, 2 or 4
    uint32_t base = 0;       // added to each; their sum fits the bytes
    uint32_t null_code = 0;  // for nulls
  };
  // Like Read, but writes the code of each row, without gaps, and stops early where a
  // page holds values themselves; returns the rows read.
  virtual Result<int64_t> ReadCodes(int64_t /*rows*/, const Codes& /*codes*/,
                                    uint8_t* /*out*/, uint8_t* /*valid*/) {
    return 0;
  }

  // Index of the data page being read, for Place.
  virtual int64_t page() const = 0;
};

// Decodes variable-length bytes (BYTE_ARRAY, and FIXED_LEN_BYTE_ARRAY as bytes).
class BytesReader {
 public:
  virtual ~BytesReader() = default;

  virtual Status Skip(int64_t rows) = 0;

  // Writes `rows` views to `views`. What they show lives as long as the spec and what
  // `arena` then holds.
  virtual Status Read(int64_t rows, ByteView* views, uint8_t* valid,
                      ByteArena* arena) = 0;

  virtual int64_t page() const = 0;
};

}  // namespace fastload
