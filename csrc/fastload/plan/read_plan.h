// The rows that one pass reads and delivers, as fastload.plan.read_plan.read_plan plans
// them.
#pragma once

#include <cstdint>
#include <vector>

namespace fastload {

// The rows [start, stop) of a row group, counted among the row group's selected rows.
struct Piece {
  int64_t file;
  int64_t row_group;
  int64_t start;
  int64_t stop;
  bool substitute = false;  // the rows stand in for unreadable rows, and are not real
  // The index in ReadPlan::numbers of the first of the rows that the piece selects; -1:
  // the dataset selects the rows. With numbers, `start` is 0 and `stop` their count.
  int64_t numbers = -1;
};

// The positions [start, stop) of a window.
struct Take {
  int64_t start;
  int64_t stop;
};

struct ReadPlan {
  int64_t batch_rows = 0;  // rows of every batch but the last
  int64_t rows = 0;        // rows delivered in total, repeats included
  int64_t padding = 0;     // trailing rows that are repeats, not data
  bool shuffled = false;
  std::vector<Piece> pieces;
  std::vector<Take> takes;
  // Window v owns the pieces [first_piece[v], first_piece[v + 1]) and the takes
  // [first_take[v], first_take[v + 1]). The window's rows are the rows of its pieces, one
  // after another. Position p of the window is row p, or, when shuffled, the row that
  // MakeShuffle(keys[v]) puts at position p.
  std::vector<int64_t> first_piece;
  std::vector<int64_t> first_take;
  std::vector<uint64_t> keys;
  // If true, a shuffled window's position p is row p: takes alone decide the order.
  bool by_takes = false;
  // Rows of row groups, as stored: see Piece::numbers.
  std::vector<int64_t> numbers;

  int64_t windows() const { return static_cast<int64_t>(keys.size()); }
};

}  // namespace fastload
