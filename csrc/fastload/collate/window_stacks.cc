// Stacks of a few columns in a shuffled window: one slice of neighbouring columns after
// another.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fastload/base/stream_copy.h"
#include "fastload/collate/stack_rows.h"
#include "fastload/collate/window.h"
#include "fastload/collate/window_runs.h"

namespace fastload {
namespace {

// The output rows put together before they are stored; the rows stay in the L1 cache.
constexpr int64_t kGatherRows = 64;

}  // namespace

Status WindowTask::FillStackByRecords() {
  const size_t columns = unit_.columns.size();
  const int64_t item = unit_.width / static_cast<int64_t>(columns);
  const Pieces pieces = PiecesOfShare();
  std::vector<Cursor> cursors(columns);
  if (before_ != nullptr) cursors = std::move(before_->cursors);
  std::vector<StackRows::Column> described;
  for (size_t c = 0; c < columns; ++c) {
    const auto describe = [&]() -> Status {
      ARROW_RETURN_NOT_OK(
          Seek(c, pieces.begin, c * pieces.chunks + pieces.chunk, &cursors[c]));
      ARROW_ASSIGN_OR_RAISE(const auto dictionary, cursors[c].fixed->Dictionary());
      const auto entries = static_cast<int64_t>(dictionary.size()) / item;
      described.push_back(
          {&source_->columns[static_cast<size_t>(unit_.columns[c])],
           entries == 0 ? 0
                        : CodeTable::CodeBytes(entries, Chunks(), item, window_->rows)});
      return Status::OK();
    };
    const Status status = describe();
    if (!status.ok())
      return Located(status, c, window_->pieces[pieces.begin], cursors[c]);
  }
  for (size_t first = 0; first < columns;) {
    size_t end = first;
    for (int64_t bytes = 0; end < columns; ++end) {
      bytes += described[end].code_bytes == 0 ? item : described[end].code_bytes;
      if (bytes > StackRows::kMostRowBytes) break;
    }
    ARROW_ASSIGN_OR_RAISE(
        StackRows rows,
        StackRows::Make(*window_, item, std::span(described).subspan(first, end - first),
                        scratch_));
    ARROW_RETURN_NOT_OK(
        ReadSlice(first, std::span(cursors).subspan(first, end - first), &rows));
    ARROW_RETURN_NOT_OK(CollateSlice(rows, static_cast<int64_t>(first) * item));
    first = end;
  }
  return Status::OK();
}

Status WindowTask::ReadSlice(size_t first_column, std::span<Cursor> cursors,
                             StackRows* rows) {
  const Pieces pieces = PiecesOfShare();
  size_t chunk = pieces.chunk;
  int64_t first = pieces.first;
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = window_->pieces[i];
    const auto for_each_column = [&](const auto& fn) -> Status {
      for (size_t c = 0; c < cursors.size(); ++c) {
        const Status status = fn(c);
        if (!status.ok()) return Located(status, first_column + c, piece, cursors[c]);
      }
      return Status::OK();
    };
    ARROW_RETURN_NOT_OK(for_each_column([&](size_t c) -> Status {
      if (i > pieces.begin) {
        ARROW_RETURN_NOT_OK(Seek(first_column + c, i,
                                 (first_column + c) * pieces.chunks + chunk,
                                 &cursors[c]));
      }
      return rows->Begin(c, cursors[c].fixed.get());
    }));
    for (const int64_t end = first + piece.stop - piece.start; first < end;) {
      const int64_t n = std::min(StackRows::kBlockRows, end - first);
      ARROW_RETURN_NOT_OK(for_each_column(
          [&](size_t c) { return rows->Read(c, cursors[c].fixed.get(), first, n); }));
      first += n;
    }
    for (Cursor& cursor : cursors) cursor.row = piece.stop;
    chunk += window_->fresh[i];
  }
  source_->counters.decoded_values +=
      (first - pieces.first) * static_cast<int64_t>(cursors.size());
  for (Cursor& cursor : cursors) Carry(std::move(cursor), pieces);
  return Status::OK();
}

Status WindowTask::CollateSlice(const StackRows& rows, int64_t offset) {
  const Layout::Slot& slot = unit_.slots[0];
  const int64_t row_bytes = rows.row_bytes();
  uint8_t* gathered = scratch_->Get(Scratch::kTile, kGatherRows * row_bytes);
  if (gathered == nullptr)
    return Status::OutOfMemory("Expected memory for rows of a stack, got none");
  for (const Part& part : window_->parts) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, slot) + offset;
    ForEachRowRun(*window_, part, [&](const RowRun& run) {
      for (int64_t from = 0; from < run.rows; from += kGatherRows) {
        const int64_t n = std::min(kGatherRows, run.rows - from);
        rows.Gather(run, from, n, gathered);
        uint8_t* to = out + (run.first + from) * slot.stride;
        if (row_bytes == slot.stride) {
          StreamCopy(to, gathered, n * row_bytes);
          continue;
        }
        for (int64_t row = 0; row < n; ++row) {
          StreamCopy(to + row * slot.stride, gathered + row * row_bytes, row_bytes);
        }
      }
    });
  }
  return Status::OK();
}

}  // namespace fastload
