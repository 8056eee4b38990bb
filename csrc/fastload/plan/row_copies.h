// Copies of rows: how often a pass delivers each row of a row group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fastload {

// The number of copies of each selected row of a row group; borrowed. Null: one copy of
// each row.
struct RowCopies {
  const uint16_t* counts = nullptr;
  int64_t rows = 0;  // selected rows of the row group

  bool single() const { return counts == nullptr; }
};

// A walk over the copies of a row group's rows, front to back. Rows are numbered among
// the selected rows.
class CopiesWalk {
 public:
  // Rows to read, and the copies to make of them.
  struct Span {
    int64_t row = 0;     // the first row
    int64_t rows = 0;    // 0: no copy is left
    int64_t copies = 0;  // of all rows of the span
    bool single = true;  // each row has one copy, and `positions` is not written
  };
  // The most rows, and copies, of a span in which a row has another number of copies
  // than one.
  static constexpr int64_t kBlockRows = 1024;
  static constexpr int64_t kBlockCopies = 4096;
  // The positions that Next may write.
  static constexpr int64_t kPositions = kBlockCopies + 4;

  explicit CopiesWalk(RowCopies copies) : copies_(copies) {}

  // Skips `n` copies.
  void Skip(int64_t n);

  // Copies of the row `row() - 1` that are left after the latest Next or Skip, which cut
  // the row. Next continues behind the row, so these copies are taken first.
  int64_t left() const { return left_; }
  void Take(int64_t n) { left_ -= n; }

  // Takes up the next row that has copies: all its copies are left. Returns false if no
  // copy is left.
  bool Enter();

  // Returns the next rows, of which the walk returns at most `most` (more than 0) copies;
  // there may be copies left of the last row. At most `most_rows` (at most kBlockRows)
  // rows are in the span. With `gaps`, the span may contain rows without copies.
  // `positions` receives the row of each copy, counted from the span's first row.
  Span Next(int64_t most, int64_t most_rows, bool gaps, uint16_t* positions);

  // Goes back to `row`, of which no copy was taken.
  void Return(int64_t row) {
    row_ = row;
    left_ = 0;
  }

  // Returns the first row from the current row on that has copies, or the number of rows.
  int64_t NextRow();
  int64_t row() const { return row_; }
  // Returns the copies of a row.
  int64_t Count(int64_t row) const { return copies_.counts[row]; }

 private:
  RowCopies copies_;
  int64_t row_ = 0;
  int64_t left_ = 0;
};

// Draws the copies of rows by their weights: with e = weights[i] * scale, row i has
// floor(e) copies, and one more if number i of the random stream `key`, as a fraction, is
// less than e - floor(e). `counts` receives the copies, and `rows` the sum for each of
// the row groups that lie between neighbouring `edges`.
template <typename Weight, typename Count>
void DrawCopies(std::span<const Weight> weights, std::span<const int64_t> edges,
                double scale, uint64_t key, Count* counts, int64_t* rows);

}  // namespace fastload
