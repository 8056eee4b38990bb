// Copies of rows: how often a pass delivers each row of a row group.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace fastload {

// The row of each copy of a row group's selected rows, ascending; borrowed. Rows are
// numbered among the selected rows. Null: one copy of each row.
struct RowCopies {
  const uint32_t* rows = nullptr;
  int64_t count = 0;

  bool single() const { return rows == nullptr; }
};

// Appends the row of each copy to `rows`.
void AppendRowsOfCopies(std::span<const uint16_t> counts, std::vector<uint32_t>* rows);

// The copies of a row group's selected rows. The row of each copy is written down when it
// is first asked for.
class GroupCopies {
 public:
  // `counts` has the number of copies of each row; borrowed.
  explicit GroupCopies(std::span<const uint16_t> counts) : counts_(counts) {}

  // Returns the row of each copy, which lives as long as this object. Thread-safe.
  RowCopies rows();

 private:
  const std::span<const uint16_t> counts_;
  std::once_flag expanded_;
  std::vector<uint32_t> rows_;
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
    bool single = true;  // each row has one copy, and `positions` is not written
  };
  // The most rows, and copies, of a span in which a row has another number of copies
  // than one.
  static constexpr int64_t kBlockRows = 1024;
  static constexpr int64_t kBlockCopies = 4096;

  explicit CopiesWalk(RowCopies copies) : copies_(copies) {}

  // Skips `n` copies.
  void Skip(int64_t n) { at_ += n; }

  // Returns true if the previous copy and the next one are of the same row.
  bool cut() const {
    return at_ > 0 && at_ < copies_.count && copies_.rows[at_] == copies_.rows[at_ - 1];
  }
  // Returns how many of the next copies, up to `most`, are of the row of the next copy.
  int64_t Same(int64_t most) const;

  // Returns the next rows, of which the walk returns at most `most` (more than 0) copies;
  // there may be copies left of the last row. At most `most_rows` (at most kBlockRows)
  // rows are in the span. With `gaps`, the span may contain rows without copies.
  // `positions` (kBlockCopies) receives the row of each copy, counted from the span's
  // first row.
  Span Next(int64_t most, int64_t most_rows, bool gaps, uint16_t* positions);

  // Goes back by `n` copies.
  void Return(int64_t n) { at_ -= n; }

  bool done() const { return at_ >= copies_.count; }
  // The row of the next copy.
  int64_t row() const { return copies_.rows[at_]; }

 private:
  RowCopies copies_;
  int64_t at_ = 0;
};

// Draws the copies of rows by their weights: with e = weights[i] * scale, row i has
// floor(e) copies, and one more if number i of the random stream `key`, as a fraction, is
// less than e - floor(e). `counts` receives the copies, and `rows` the sum for each of
// the row groups that lie between neighbouring `edges`.
template <typename Weight, typename Count>
void DrawCopies(std::span<const Weight> weights, std::span<const int64_t> edges,
                double scale, uint64_t key, Count* counts, int64_t* rows);

}  // namespace fastload
