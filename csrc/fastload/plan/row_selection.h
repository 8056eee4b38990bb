// Which rows of row groups a dataset is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"

namespace fastload {

// The rows of one row group that stay: bit i of `bits`, the lowest of a byte first, is
// that of row i. Whole 64-bit words may be read, and bits behind the last row are 0.
// Null: all rows stay.
struct RowBits {
  const uint8_t* bits = nullptr;
  int64_t rows = 0;
};

// Whether any of the rows [start, start + rows) stays.
bool AnyStays(RowBits bits, int64_t start, int64_t rows);

// The rows that stay of all row groups of one file; bytes are borrowed.
struct FileSelection {
  // Where the bits of each row group begin; -1: all of its rows stay. Empty: those of all
  // row groups.
  std::vector<int64_t> offsets;
  const uint8_t* bits = nullptr;
  int64_t bytes = 0;

  // An error if a row group's bits are not inside of `bits`; `rows` are those of each.
  Status Check(const std::vector<int64_t>& rows) const;
  RowBits Of(int32_t row_group, int64_t rows) const;
};

// Walks the rows of a row group that stay, front to back.
class SelectedRows {
 public:
  // Stored rows [start, start + rows), the first and the last of which stay.
  struct Span {
    int64_t start = 0;
    int64_t rows = 0;
    int64_t selected = 0;  // of them, how many stay

    bool whole() const { return selected == rows; }
  };
  // Rows of a span of which some do not stay.
  static constexpr int64_t kBlockRows = 1024;

  explicit SelectedRows(RowBits bits) : bits_(bits) {}

  // Passes over `selected` rows that stay.
  void Skip(int64_t selected);

  // The next rows, at most `most` (more than 0) of which stay: a run of them without a
  // gap, or, with `blocks`, a block with gaps where runs are so short that decoding what
  // lies between them costs less than passing over it. No rows at the end.
  Span Next(int64_t most, bool blocks);

  // The row that Next would begin with; the number of rows at the end.
  int64_t row();

  // The part of a span that lies before a row inside of it.
  Span Before(const Span& span, int64_t row) const;

  // Goes back to a row, of a span that was not used up.
  void Return(int64_t row) { row_ = row; }

  // Writes the rows of the span that stay, counted from its start.
  void Positions(const Span& span, uint16_t* out) const;

 private:
  int64_t words() const { return (bits_.rows + 63) / 64; }
  uint64_t Word(int64_t i) const;
  // The 64 bits from bit `at` on; 0 behind the last row.
  uint64_t WordAt(int64_t at) const;
  int64_t RunLength(int64_t most) const;
  // The block from row_ on; `worth` tells whether decoding it whole costs less.
  Span Block(int64_t most, bool* worth) const;

  RowBits bits_;
  int64_t row_ = 0;           // all before have been handed out or passed over
  int64_t sparse_until_ = 0;  // up to there blocks are not worth it
};

}  // namespace fastload
