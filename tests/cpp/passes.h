// Read plans written by hand, the rows that the plans stand for, and passes that execute
// the plans.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fastload/collate/shuffle.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/plan/read_plan.h"
#include "fastload/scan/pipeline.h"
#include "row_files.h"

namespace fastload::testing {

class PlanBuilder {
 public:
  explicit PlanBuilder(bool shuffled) { plan_.shuffled = shuffled; }

  PlanBuilder& Window(const std::vector<Piece>& pieces, const std::vector<Take>& takes) {
    plan_.pieces.insert(plan_.pieces.end(), pieces.begin(), pieces.end());
    plan_.takes.insert(plan_.takes.end(), takes.begin(), takes.end());
    plan_.first_piece.push_back(static_cast<int64_t>(plan_.pieces.size()));
    plan_.first_take.push_back(static_cast<int64_t>(plan_.takes.size()));
    plan_.keys.push_back(0x1234567 * plan_.keys.size() + 99);
    return *this;
  }
  // Adds a window of all rows of `pieces`.
  PlanBuilder& Window(const std::vector<Piece>& pieces) {
    int64_t rows = 0;
    for (const Piece& piece : pieces) rows += piece.stop - piece.start;
    return Window(pieces, {{0, rows}});
  }
  ReadPlan Build(int64_t batch_rows, int64_t padding = 0) {
    plan_.batch_rows = batch_rows;
    plan_.padding = padding;
    plan_.rows = 0;
    for (const Take& take : plan_.takes) plan_.rows += take.stop - take.start;
    return plan_;
  }

 private:
  ReadPlan plan_{.first_piece = {0}, .first_take = {0}};
};

// Returns the whole row groups of all files, in order.
inline std::vector<Piece> AllPieces(const std::vector<FileSpec>& files) {
  std::vector<Piece> pieces;
  for (size_t f = 0; f < files.size(); ++f) {
    for (int g = 0; g < files[f].row_groups(); ++g) {
      const int64_t rows = files[f].RowsOf(g);
      if (rows > 0) pieces.push_back({static_cast<int64_t>(f), g, 0, rows});
    }
  }
  return pieces;
}

// Cuts the rows of `pieces` into windows of `window_rows` rows.
inline ReadPlan CutPlan(const std::vector<Piece>& pieces, int64_t window_rows,
                        int64_t batch_rows, bool shuffled) {
  PlanBuilder builder(shuffled);
  std::vector<Piece> window;
  int64_t room = window_rows;
  for (Piece piece : pieces) {
    while (piece.start < piece.stop) {
      const int64_t rows = std::min(room, piece.stop - piece.start);
      window.push_back({piece.file, piece.row_group, piece.start, piece.start + rows});
      piece.start += rows;
      room -= rows;
      if (room > 0) continue;
      builder.Window(window);
      window.clear();
      room = window_rows;
    }
  }
  if (!window.empty()) builder.Window(window);
  return builder.Build(batch_rows);
}

// Returns the rows that a plan stands for.
inline std::vector<RowId> PlannedRows(const ReadPlan& plan,
                                      const std::vector<FileSpec>& files,
                                      uint32_t bucket_rows = kBucketRows) {
  std::vector<RowId> ids;
  for (size_t w = 0; w + 1 < plan.first_piece.size(); ++w) {
    std::vector<RowId> window;
    for (auto p = plan.first_piece[w]; p < plan.first_piece[w + 1]; ++p) {
      const Piece& piece = plan.pieces[static_cast<size_t>(p)];
      int64_t first = 0;
      const FileSpec& file = files[static_cast<size_t>(piece.file)];
      for (int g = 0; g < piece.row_group; ++g) first += file.RowsOf(g);
      for (int64_t row = piece.start; row < piece.stop; ++row) {
        window.push_back({piece.file, first + row, !piece.substitute});
      }
    }
    Shuffle shuffle;
    MakeShuffle(plan.keys[w], static_cast<uint32_t>(window.size()), &shuffle,
                bucket_rows);
    for (auto t = plan.first_take[w]; t < plan.first_take[w + 1]; ++t) {
      const Take& take = plan.takes[static_cast<size_t>(t)];
      for (auto position = static_cast<size_t>(take.start);
           position < static_cast<size_t>(take.stop); ++position) {
        ids.push_back(window[plan.shuffled ? shuffle.rows[position] : position]);
      }
    }
  }
  for (int64_t i = 0; i < plan.padding; ++i) ids[ids.size() - 1 - i].real = false;
  return ids;
}

// Returns one line for each planned row.
inline std::vector<std::string> PlannedTexts(const ReadPlan& plan,
                                             const std::vector<FileSpec>& files) {
  std::vector<std::string> lines;
  for (const RowId& id : PlannedRows(plan, files)) lines.push_back(Text(id));
  return lines;
}

// The batches of a pass up to its end or its error.
struct Delivered {
  std::vector<Batch> batches;
  Status status;
};

inline Delivered Deliver(Scan* scan, size_t most = SIZE_MAX) {
  Delivered delivered;
  bool done = false;
  while (!done && delivered.batches.size() < most) {
    auto batch = scan->Next(std::chrono::milliseconds(200), &done);
    delivered.status = batch.status();
    if (!batch.ok()) break;
    if (*batch) delivered.batches.push_back(*std::move(*batch));
  }
  return delivered;
}

}  // namespace fastload::testing
