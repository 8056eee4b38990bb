// What one pass reads and delivers; made by fastload.plan.read_plan.read_plan.
#pragma once

#include <cstdint>
#include <vector>

namespace fastload {

// Rows [start, stop) of a row group, counted among those that the dataset is made of.
struct Piece {
  int64_t file;
  int64_t row_group;
  int64_t start;
  int64_t stop;
  bool substitute = false;  // its rows stand in for unreadable ones, and are not real
};

// Positions [start, stop) of a window.
struct Take {
  int64_t start;
  int64_t stop;
};

struct ReadPlan {
  int64_t batch_rows = 0;  // of every batch but the last
  int64_t rows = 0;        // delivered in total, repeats included
  int64_t padding = 0;     // trailing rows that are repeats, not data
  bool shuffled = false;
  std::vector<Piece> pieces;
  std::vector<Take> takes;
  // Window v owns the pieces [first_piece[v], first_piece[v + 1]), and so for takes. Its
  // rows are those of its pieces, one after the other; position p stands for row p, or,
  // when shuffled, for the row that MakeShuffle(keys[v]) puts there.
  std::vector<int64_t> first_piece;
  std::vector<int64_t> first_take;
  std::vector<uint64_t> keys;

  int64_t windows() const { return static_cast<int64_t>(keys.size()); }
};

}  // namespace fastload
