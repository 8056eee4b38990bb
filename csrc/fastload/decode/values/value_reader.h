// Interfaces of readers of one column chunk's values, front to back, row by row.
#pragma once

#include <cstdint>
#include <span>

#include "fastload/base/byte_arena.h"
#include "fastload/base/status.h"
#include "fastload/decode/values/byte_view.h"

namespace fastload {

// A reader of fixed-width values, which casts values to the dtype of the spec and decodes
// straight to the destination. Not thread-safe; may move between threads.
class FixedReader {
 public:
  virtual ~FixedReader() = default;

  // Skips `rows` rows. Whole pages are skipped without being decompressed.
  virtual Status Skip(int64_t rows) = 0;

  // Decodes `rows` rows to out, out + stride, ...; `stride` is in bytes, and at least the
  // item size. `valid`, unless null, receives one byte per row: 1 = not null. If fewer
  // than `rows` rows are left, returns ErrorKind::kCorruptFile. The error of one row (a
  // null, or a value that does not fit the dtype) carries the row's number in the row
  // group (RowOf).
  virtual Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) = 0;

  // Decodes the next `rows` rows (more than 0), of which `marked` are marked
  // (CopyMarked), and writes the marked rows to out, out + stride, ... Stops early at the
  // end of a page, and returns the number of rows read. Returns 0 and reads nothing if a
  // row may be null, or if Read and CopyMarked are not slower.
  virtual Result<int64_t> ReadMarked(int64_t /*rows*/, const uint64_t* /*marks*/,
                                     int64_t /*marked*/, uint8_t* /*out*/,
                                     int64_t /*stride*/) {
    return 0;
  }

  // Returns the elements of the dictionary to which the next row's page has codes,
  // without gaps; they live as long as the reader. Empty if the page holds the values
  // themselves. Lists of a fixed size have no codes for rows.
  virtual Result<std::span<const uint8_t>> Dictionary() {
    return std::span<const uint8_t>();
  }

  // The format of written codes.
  struct Codes {
    int64_t bytes = 2;       // bytes of each code: 1, 2 or 4
    uint32_t base = 0;       // added to each code; the sum fits into `bytes` bytes
    uint32_t null_code = 0;  // the code of nulls
  };
  // Does the same as Read, but writes each row's code, without gaps, and stops early at a
  // page that holds the values themselves. Returns the number of rows read.
  virtual Result<int64_t> ReadCodes(int64_t /*rows*/, const Codes& /*codes*/,
                                    uint8_t* /*out*/, uint8_t* /*valid*/) {
    return 0;
  }

  // Frees memory that the next rows can do without: these rows are not read for a while.
  virtual void Rest() {}

  // Returns the index of the data page being read, for the location of an error.
  virtual int64_t page() const = 0;
};

// A reader of variable-length bytes (BYTE_ARRAY, and FIXED_LEN_BYTE_ARRAY as bytes).
class BytesReader {
 public:
  virtual ~BytesReader() = default;

  virtual Status Skip(int64_t rows) = 0;

  // Writes `rows` views to `views`. The viewed bytes live as long as the spec and the
  // content of `arena`.
  virtual Status Read(int64_t rows, ByteView* views, uint8_t* valid,
                      ByteArena* arena) = 0;

  virtual int64_t page() const = 0;
};

}  // namespace fastload
