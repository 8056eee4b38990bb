#include "fastload/scan/plan_check.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "fastload/scan/lanes.h"

namespace fastload {
namespace {

// Checks the segments of a window of a packed plan, and adds their number to `*rows`.
Status CheckSegments(const ReadPlan& plan, size_t window, int64_t window_rows,
                     int64_t* rows) {
  const Take& take = plan.takes[static_cast<size_t>(plan.first_take[window])];
  if (plan.first_take[window + 1] - plan.first_take[window] != 1 || take.start != *rows ||
      take.stop <= take.start || take.stop > static_cast<int64_t>(plan.segments.size())) {
    return Status::Invalid("Expected a range of segments for window ", window);
  }
  *rows = take.stop;
  for (int64_t s = take.start; s < take.stop; ++s) {
    const Segment& segment = plan.segments[static_cast<size_t>(s)];
    const bool inside = segment.row == Segment::kPadding ||
                        (segment.row < window_rows &&
                         uint64_t{segment.first} + segment.size <= segment.length);
    if (!inside || segment.size == 0) {
      return Status::Invalid("Expected elements of a row of the window, got segment ", s);
    }
  }
  return Status::OK();
}

// Checks that the rows of each window are in an order of their own.
Status CheckOrders(const ReadPlan& plan, int64_t ordered) {
  if (!plan.shuffled || static_cast<int64_t>(plan.orders.size()) != ordered) {
    return Status::Invalid("Expected an order of ", ordered, " shuffled rows, got ",
                           plan.orders.size());
  }
  size_t first = 0;
  for (size_t w = 0; w < static_cast<size_t>(plan.windows()); ++w) {
    size_t rows = 0;
    for (auto p = plan.first_piece[w]; p < plan.first_piece[w + 1]; ++p) {
      const Piece& piece = plan.pieces[static_cast<size_t>(p)];
      rows += static_cast<size_t>(piece.stop - piece.start);
    }
    std::vector<bool> seen(rows);
    for (const uint32_t row : std::span(plan.orders).subspan(first, rows)) {
      if (row >= rows || seen[row]) {
        return Status::Invalid("Expected a permutation of the rows of window ", w);
      }
      seen[row] = true;
    }
    first += rows;
  }
  return Status::OK();
}

// Checks that the segments of a batch, of `items` elements, are whole packed rows.
Status CheckPackedRows(int64_t batch, int64_t items, int64_t pack_length) {
  if (items % pack_length == 0) return Status::OK();
  return Status::Invalid("Expected whole packed rows in batch ", batch, ", got ", items,
                         " elements");
}

// Checks that every window has a lane whose rows its batches take.
Status CheckLanes(const ReadPlan& plan, int64_t pack_length) {
  if (plan.lane_of.empty()) return Status::OK();
  const size_t lanes = plan.lane_padding.size();
  if (plan.lane_of.size() != plan.keys.size() || lanes == 0 ||
      plan.batch_edges.size() % lanes != 1 % lanes) {
    return Status::Invalid("Expected a lane of each window, and edges of all lanes");
  }
  std::vector<int64_t> rows(lanes);
  for (size_t part = 0; part + 1 < plan.batch_edges.size(); ++part) {
    rows[part % lanes] += plan.batch_edges[part + 1] - plan.batch_edges[part];
  }
  for (size_t w = 0; w < plan.lane_of.size(); ++w) {
    const int32_t lane = plan.lane_of[w];
    if (lane < 0 || static_cast<size_t>(lane) >= lanes) {
      return Status::Invalid("Expected one of ", lanes, " lanes, got ", lane);
    }
    for (auto t = plan.first_take[w]; t < plan.first_take[w + 1]; ++t) {
      const Take& take = plan.takes[static_cast<size_t>(t)];
      rows[static_cast<size_t>(lane)] -= take.stop - take.start;
    }
  }
  for (const int64_t left : rows) {
    if (left != 0) return Status::Invalid("Expected batches of all rows of each lane");
  }
  for (const int64_t padding : plan.lane_padding) {
    if (padding < 0) return Status::Invalid("Expected padding of at least 0 rows");
  }
  const Lanes in_lanes(&plan);
  for (int64_t batch = 0; plan.packed() && batch < plan.batches(); ++batch) {
    ARROW_RETURN_NOT_OK(CheckPackedRows(batch, in_lanes.Items(batch), pack_length));
  }
  // Else a window that is opened too early keeps the next batch's window closed.
  int64_t before = 0;
  for (int64_t w = 0; w < plan.windows(); ++w) {
    const int64_t batch = in_lanes.BatchOf(plan.LaneOf(w), in_lanes.FirstRow(w));
    if (batch < before) {
      return Status::Invalid("Expected windows in the order in which batches need them");
    }
    before = batch;
  }
  return Status::OK();
}

// Checks that the batches' edges ascend, and that batches have whole packed rows.
Status CheckEdges(const ReadPlan& plan, int64_t pack_length) {
  if (plan.batch_edges.empty()) {
    return plan.packed() ? Status::Invalid("Expected edges of batches, got none")
                         : Status::OK();
  }
  if (plan.batch_edges.front() != 0 || plan.batch_edges.back() != plan.rows) {
    return Status::Invalid("Expected edges of batches from 0 to ", plan.rows);
  }
  for (size_t b = 0; b + 1 < plan.batch_edges.size(); ++b) {
    const int64_t first = plan.batch_edges[b];
    const int64_t end = plan.batch_edges[b + 1];
    if (end <= first) return Status::Invalid("Expected rows of batch ", b, ", got none");
    if (!plan.packed() || plan.lanes() > 1) continue;
    int64_t items = 0;
    for (int64_t s = first; s < end; ++s) {
      items += plan.segments[static_cast<size_t>(s)].size;
    }
    ARROW_RETURN_NOT_OK(CheckPackedRows(static_cast<int64_t>(b), items, pack_length));
  }
  return Status::OK();
}

// Returns true if the rows that the piece selects are ascending rows of its row group.
bool HasNumbers(const ReadPlan& plan, const Piece& piece, const Dataset& dataset) {
  const auto all = static_cast<int64_t>(plan.numbers.size());
  if (piece.start != 0 || piece.numbers > all || piece.stop > all - piece.numbers) {
    return false;
  }
  const auto numbers =
      std::span(plan.numbers)
          .subspan(static_cast<size_t>(piece.numbers), static_cast<size_t>(piece.stop));
  const int64_t rows = dataset.files.spec(static_cast<int32_t>(piece.file))
                           .RowsOf(static_cast<int32_t>(piece.row_group));
  return numbers.front() >= 0 && numbers.back() < rows &&
         std::ranges::adjacent_find(numbers, std::greater_equal{}) == numbers.end();
}

// Returns true if the copies of the piece are of the selected rows of its row group.
bool HasCopies(const ReadPlan& plan, const Piece& piece, const Dataset& dataset) {
  const auto all = static_cast<int64_t>(plan.copies.size());
  return piece.numbers < 0 && piece.stop <= piece.copy_count && piece.copies <= all &&
         piece.copy_rows <= all - piece.copies &&
         piece.copy_rows ==
             CountSelected(dataset.Bits(static_cast<int32_t>(piece.file),
                                        static_cast<int32_t>(piece.row_group)));
}

}  // namespace

Status CheckPlan(const ReadPlan& plan, const Dataset& dataset) {
  const auto windows = static_cast<size_t>(plan.windows());
  const bool sizes =
      plan.batch_rows > 0 && plan.first_piece.size() == windows + 1 &&
      plan.first_take.size() == windows + 1 &&
      plan.first_piece.back() == static_cast<int64_t>(plan.pieces.size()) &&
      plan.first_take.back() == static_cast<int64_t>(plan.takes.size());
  if (!sizes) return Status::Invalid("Expected a read plan, got arrays that disagree");
  if (plan.padding < 0) return Status::Invalid("Expected padding of at least 0 rows");
  if (plan.first_piece[0] != 0 || plan.first_take[0] != 0) {
    return Status::Invalid("Expected windows from the first piece on, got others");
  }
  int64_t rows = 0;
  int64_t ordered = 0;  // rows of all windows
  for (size_t w = 0; w < windows; ++w) {
    if (plan.first_piece[w] >= plan.first_piece[w + 1] ||
        plan.first_take[w] >= plan.first_take[w + 1] ||
        plan.first_piece[w + 1] > plan.first_piece.back() ||
        plan.first_take[w + 1] > plan.first_take.back()) {
      return Status::Invalid("Expected pieces and takes of window ", w, ", got none");
    }
    if (!plan.shuffled && plan.first_take[w + 1] - plan.first_take[w] > 1) {
      return Status::Invalid("Expected one take of a window in order, got several");
    }
    int64_t window_rows = 0;
    for (int64_t p = plan.first_piece[w]; p < plan.first_piece[w + 1]; ++p) {
      const Piece& piece = plan.pieces[static_cast<size_t>(p)];
      if (piece.file < 0 || piece.file >= dataset.files.size() || piece.row_group < 0 ||
          piece.row_group >=
              dataset.files.spec(static_cast<int32_t>(piece.file)).row_groups() ||
          piece.start < 0 || piece.stop <= piece.start) {
        return Status::Invalid("Expected rows of a file's row group, got piece ", p);
      }
      if ((piece.copies >= 0) != (plan.pieces[0].copies >= 0)) {
        return Status::Invalid("Expected copies of the rows of all pieces, or of none");
      }
      if (piece.copies >= 0 && !HasCopies(plan, piece, dataset)) {
        return Status::Invalid("Expected copies of rows of a row group, got piece ", p);
      }
      if (piece.numbers >= 0 && !HasNumbers(plan, piece, dataset)) {
        return Status::Invalid("Expected ascending rows of a row group, got piece ", p);
      }
      window_rows += piece.stop - piece.start;
    }
    if (window_rows > std::numeric_limits<int32_t>::max()) {
      return Status::Invalid("Expected a window of fewer than 2**31 rows, got ",
                             window_rows);
    }
    if (plan.packed()) {
      ARROW_RETURN_NOT_OK(CheckSegments(plan, w, window_rows, &rows));
      continue;
    }
    ordered += window_rows;
    const int64_t before = rows;
    for (int64_t t = plan.first_take[w]; t < plan.first_take[w + 1]; ++t) {
      const Take& take = plan.takes[static_cast<size_t>(t)];
      const bool identity = take.start == 0 && take.stop == window_rows;
      if (take.start < 0 || take.stop <= take.start || take.stop > window_rows ||
          (!plan.shuffled && !identity)) {
        return Status::Invalid("Expected positions of a window, got take ", t);
      }
      rows += take.stop - take.start;
    }
    // Output rows have numbers of 32 bits.
    if (rows - before > std::numeric_limits<int32_t>::max()) {
      return Status::Invalid("Expected takes of fewer than 2**31 rows of a window, got ",
                             rows - before);
    }
  }
  if (rows != plan.rows) {
    return Status::Invalid("Expected takes of ", plan.rows, " rows, got ", rows);
  }
  if (plan.rows > 0 && plan.packed() != dataset.layout.packed()) {
    return Status::Invalid("Expected segments for packed rows, and only for these");
  }
  if (!plan.orders.empty()) ARROW_RETURN_NOT_OK(CheckOrders(plan, ordered));
  ARROW_RETURN_NOT_OK(CheckEdges(plan, dataset.layout.pack_length()));
  return CheckLanes(plan, dataset.layout.pack_length());
}

}  // namespace fastload
