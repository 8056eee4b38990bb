// The rows that one pass reads and delivers, as fastload.plan.read_plan.read_plan plans
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
  // The index in ReadPlan::copies of the first of the row group's selected rows, the
  // number of these rows, and the number of their copies; -1: each row has one copy. With
  // copies, `start` and `stop` count copies, and the piece selects no rows by number.
  int64_t copies = -1;
  int64_t copy_rows = 0;
  int64_t copy_count = 0;
};

// The positions [start, stop) of a window.
struct Take {
  int64_t start;
  int64_t stop;
};

// A run of elements of a list that a packed row holds, or padding at a packed row's end.
struct Segment {
  static constexpr uint32_t kPadding = UINT32_MAX;

  uint32_t row;  // number of the list among the rows of the window's pieces, or kPadding
  uint32_t first;   // the first element of the list
  uint32_t size;    // number of elements
  uint32_t length;  // number of elements of the whole list, as the plan knows it
};

struct ReadPlan {
  int64_t batch_rows =
      0;                // rows of every batch but the last, unless batch_edges says more
  int64_t rows = 0;     // rows delivered in total, repeats included
  int64_t padding = 0;  // trailing rows that are repeats, not data
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
  // Batches may take rows from several lanes, first of lane 0, then of lane 1, ...; each
  // window belongs to one lane. Empty: there is one lane.
  std::vector<int32_t> lane_of;
  // For each batch and each of its lanes, the rows before, then all rows. Empty: there is
  // one lane, and every batch has batch_rows rows.
  std::vector<int64_t> batch_edges;
  // Of each lane, the trailing rows that are repeats; empty: `padding` of the one lane.
  std::vector<int64_t> lane_padding;
  // If not empty, the rows of all windows in the order of their positions, in place of
  // the permutations that `keys` name: window after window, each a permutation of 0 ..
  // rows-1.
  std::vector<uint32_t> orders;
  // If not empty, the plan is packed: the lists of the windows' rows are cut to segments,
  // a row of a batch is a segment, and a take is a range of segments, counted over all
  // windows. The elements of the segments of each batch fill whole packed rows.
  std::span<const Segment> segments;
  std::shared_ptr<const void> segments_owner;  // keeps the memory of `segments`
  // If true, a shuffled window's position p is row p: takes alone decide the order.
  bool by_takes = false;
  // Rows of row groups, as stored: see Piece::numbers.
  std::vector<int64_t> numbers;
  // The number of copies of each of the selected rows of row groups: see Piece::copies.
  std::span<const uint16_t> copies;
  std::shared_ptr<const void> copies_owner;  // keeps the memory of `copies`

  bool packed() const { return !segments.empty(); }
  int64_t lanes() const {
    return lane_of.empty() ? 1 : static_cast<int64_t>(lane_padding.size());
  }
  int64_t LaneOf(int64_t window) const {
    return lane_of.empty() ? 0 : lane_of[static_cast<size_t>(window)];
  }
  int64_t batches() const;
  // Returns the rows before a batch, and before the batch's rows of a lane.
  int64_t FirstRow(int64_t batch, int64_t lane = 0) const;
  int64_t windows() const { return static_cast<int64_t>(keys.size()); }
};

}  // namespace fastload
