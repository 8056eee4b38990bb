// Copies of rows: how often a pass delivers each row of a row group.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "fastload/base/huge_pages.h"

namespace fastload {

// The row of each copy of a row group's selected rows, ascending; borrowed. Rows are
// numbered among the selected rows. The readers of all columns walk over the rows, so a
// row takes 2 bytes: the rows are kept in stretches of kStretchRows rows, and each row is
// counted from the first row of its stretch. Null: one copy of each row.
struct RowCopies {
  static constexpr int64_t kStretchRows = 1 << 16;

  const uint16_t* rows = nullptr;
  const int64_t* ends = nullptr;  // for each stretch, the copies up to its end
  int64_t count = 0;

  bool single() const { return rows == nullptr; }
  // Returns true if `row` has copies.
  bool Has(int64_t row) const;
};

// The copies of a row group's selected rows. The row of each copy is written down when it
// is first asked for.
class GroupCopies {
 public:
  // `counts` has the number of copies of each row; borrowed.
  explicit GroupCopies(std::span<const uint16_t> counts) : counts_(counts) {}

  // Returns the row of each copy, which lives as long as this object. Thread-safe.
  RowCopies rows();

 private:
  void Expand();

  const std::span<const uint16_t> counts_;
  std::once_flag expanded_;
  std::vector<uint16_t, HugeAllocator<uint16_t>> rows_;
  std::vector<int64_t> ends_;
  int64_t copies_ = 0;
};

// The copies of row groups, which live as long as somebody uses them. Thread-safe.
class CopiesByGroup {
 public:
  // Returns the copies of the row group whose rows have these counts.
  std::shared_ptr<GroupCopies> Of(std::span<const uint16_t> counts);

 private:
  std::mutex mutex_;
  std::map<const uint16_t*, std::weak_ptr<GroupCopies>> groups_;
};

// A walk over the copies of a row group's rows, front to back.
class CopiesWalk {
 public:
  // Rows to read, and the copies to make of them.
  struct Span {
    int64_t row = 0;     // the first row
    int64_t rows = 0;    // 0: no copy is left
    int64_t copies = 0;  // of all rows of the span
    bool single = true;  // each row has one copy
    // The row of each copy. The first copy is of the first row, so copy i is of row
    // positions[i] - positions[0] of the span.
    const uint16_t* positions = nullptr;
  };
  // The most rows, and copies, of a span in which a row has another number of copies
  // than one. Readers ask for 1,024 copies at a time, of somewhat more rows in many
  // places.
  static constexpr int64_t kBlockRows = 1280;
  static constexpr int64_t kBlockCopies = 4096;

  explicit CopiesWalk(RowCopies copies) : copies_(copies) { Settle(); }

  // Skips `n` copies.
  void Skip(int64_t n) {
    at_ += n;
    Settle();
  }

  // Returns true if the previous copy and the next one are of the same row.
  bool cut() const {
    return !done() && at_ > begin() && copies_.rows[at_] == copies_.rows[at_ - 1];
  }
  // Returns how many of the next copies, up to `most`, are of the row of the next copy.
  int64_t Same(int64_t most) const;

  // Returns the next rows, of which the walk returns at most `most` (more than 0) copies;
  // there may be copies left of the last row. At most `most_rows` (at most kBlockRows)
  // rows are in the span, which are of one stretch. With `gaps`, the span may contain
  // rows without copies.
  Span Next(int64_t most, int64_t most_rows, bool gaps);

  // Goes back by `n` copies.
  void Return(int64_t n) {
    at_ -= n;
    while (at_ < begin()) --stretch_;
    Settle();
  }

  bool done() const { return at_ >= copies_.count; }
  // The row of the next copy.
  int64_t row() const { return stretch_ * RowCopies::kStretchRows + copies_.rows[at_]; }

 private:
  // The first copy of the next copy's stretch, and the copies up to the stretch's end.
  int64_t begin() const { return stretch_ == 0 ? 0 : copies_.ends[stretch_ - 1]; }
  int64_t end() const { return copies_.ends[stretch_]; }
  // Moves on to the stretch of the next copy.
  void Settle() {
    while (!done() && at_ >= end()) ++stretch_;
  }

  RowCopies copies_;
  int64_t at_ = 0;
  int64_t stretch_ = 0;  // of the next copy
};

// Draws the copies of rows by their weights: with e = weights[i] * scale, row i has
// floor(e) copies, and one more if number i of the random stream `key`, as a fraction, is
// less than e - floor(e). `counts` receives the copies, and `rows` the sum for each of
// the row groups that lie between neighbouring `edges`.
template <typename Weight>
void DrawCopies(std::span<const Weight> weights, std::span<const int64_t> edges,
                double scale, uint64_t key, uint16_t* counts, int64_t* rows);

}  // namespace fastload
