// The selection of rows: which rows of each row group a dataset consists of.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"

namespace fastload {

// The selected rows of one row group, as bits or as numbers; borrowed. Bit i of `bits`
// (lowest bit of a byte first) says whether row i is selected. Whole 64-bit words are
// readable, and bits behind the last row are 0. `numbers` are `count` rows in ascending
// order, without repeats. Both null: all rows are selected.
struct RowBits {
  const uint8_t* bits = nullptr;
  int64_t rows = 0;  // of the row group
  const int64_t* numbers = nullptr;
  int64_t count = 0;

  bool all() const { return bits == nullptr && numbers == nullptr; }
};

// Returns true if any of the rows [start, start + rows) is selected.
bool AnyStays(RowBits bits, int64_t start, int64_t rows);

// Returns the number of selected rows.
int64_t CountSelected(RowBits bits);

// The selected rows of all row groups of one file. The bytes are borrowed.
struct FileSelection {
  // The offset in `bits` of each row group's bits; -1: all rows of the row group are
  // selected. Empty: all rows of all row groups are selected.
  std::vector<int64_t> offsets;
  const uint8_t* bits = nullptr;
  int64_t bytes = 0;

  // Returns an error if the bits of a row group are not inside `bits`. `rows` holds the
  // number of rows of each row group.
  Status Check(const std::vector<int64_t>& rows) const;
  RowBits Of(int32_t row_group, int64_t rows) const;
};

// A walk over the selected rows of a row group, front to back.
class SelectedRows {
 public:
  // The stored rows [start, start + rows), of which the first and the last are selected.
  struct Span {
    int64_t start = 0;
    int64_t rows = 0;
    int64_t selected = 0;  // number of selected rows in the span

    bool whole() const { return selected == rows; }
  };
  // The most rows of a span that contains rows which are not selected.
  static constexpr int64_t kBlockRows = 1024;
  // The words that hold the marks of any such span.
  static constexpr int64_t kMarkWords = kBlockRows / 64;

  explicit SelectedRows(RowBits bits) : bits_(bits) {}

  // Skips `selected` selected rows.
  void Skip(int64_t selected);

  // Returns the next rows, of which at most `most` (more than 0) are selected: a run of
  // selected rows without a gap. With `blocks`, returns a span with gaps where runs are
  // so short that decoding the rows in the gaps costs less than skipping the gaps.
  // Returns no rows at the end.
  Span Next(int64_t most, bool blocks);

  // Returns the row that Next would begin with, or the number of rows at the end.
  int64_t row();

  // Returns the part of `span` before `row`, which is inside the span.
  Span Before(const Span& span, int64_t row) const;

  // Goes back to `row`, which is inside a span that was not used up.
  void Return(int64_t row) { row_ = row; }

  // Marks the selected rows of a span with gaps: sets bit i % 64 of marks[i / 64] if row
  // span.start + i is selected. Writes the words that hold bits of the span; the other
  // bits of the last word are 0.
  void Marks(const Span& span, uint64_t* marks) const;

 private:
  int64_t words() const { return (bits_.rows + 63) / 64; }
  uint64_t Word(int64_t i) const;
  // For rows given as numbers: the index in `numbers` of the first row from row_ on.
  int64_t NextNumber();
  Span NextOfNumbers(int64_t most, bool blocks);
  // Returns the 64 bits from bit `at` on; bits behind the last row are 0.
  uint64_t WordAt(int64_t at) const;
  // Writes the words WordAt(at), WordAt(at + 64), ...
  void WordsAt(int64_t at, int64_t count, uint64_t* out) const;
  int64_t RunLength(int64_t most) const;
  // Returns the span with gaps that begins at row_; sets `*worth` if decoding the whole
  // span costs less.
  Span Block(int64_t most, bool* worth) const;

  RowBits bits_;
  int64_t row_ = 0;           // all rows before row_ have been returned or skipped
  int64_t number_ = 0;        // index of a number; numbers before it are less than row_
  int64_t sparse_until_ = 0;  // spans with gaps before this row are not worth decoding
};

}  // namespace fastload
