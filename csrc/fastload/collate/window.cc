#include "fastload/collate/window.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "fastload/base/stream_copy.h"

namespace fastload {
namespace {

// Returns true if each value is decoded straight to its only destination. A value with
// several destinations (a column under two names) is copied.
bool IsDirect(const Window& window, const Unit& unit) {
  if (window.shuffled || unit.slots.size() != 1) return false;
  return unit.valid_slots.empty() ||
         (unit.valid_slots.size() == 1 && !unit.valid_slots[0].row_major);
}

// Returns true if shares of a unit's rows are decoded independently of each other.
bool IsShared(const Window& window, const Unit& unit) {
  return unit.staged() || unit.kind == Unit::Kind::kPadded ||
         (unit.kind == Unit::Kind::kFixed &&
          (IsRowByRow(window, unit) || IsDirect(window, unit)));
}

}  // namespace

bool IsRowByRow(const Window& window, const Unit& unit) {
  return unit.row_by_row || (window.by_takes && window.shuffled &&
                             unit.kind == Unit::Kind::kFixed && unit.columns.size() == 1);
}

RowBits BitsOf(const RowSource& source, const Window& window, const Piece& piece) {
  const auto file = static_cast<int32_t>(piece.file);
  const auto row_group = static_cast<int32_t>(piece.row_group);
  if (piece.numbers < 0) return source.Bits(file, row_group);
  return {.rows = source.files.spec(file).RowsOf(row_group),
          .numbers = window.numbers.data() + piece.numbers,
          .count = piece.stop};
}

bool MayKeepRows(const RowSource& source, const Window& window, size_t piece) {
  const Piece& p = window.pieces[piece];
  return p.numbers < 0 && window.copies.empty() && !window.shared[piece] &&
         !BitsOf(source, window, p).all();
}

KeptSelections::Key RowsKey(const Unit& unit, int32_t column, const Piece& piece) {
  return {.file = static_cast<int32_t>(piece.file),
          .row_group = static_cast<int32_t>(piece.row_group),
          .column = column,
          .valid = !unit.valid_slots.empty()};
}

RowCopies CopiesOf(const Window& window, size_t piece) {
  return window.copies.empty() ? RowCopies{} : window.copies[piece]->rows();
}

std::vector<Share> CutShares(const Window& window, int64_t wanted) {
  const int64_t chunks = std::count(window.fresh.begin(), window.fresh.end(), true) +
                         (window.fresh[0] ? 0 : 1);
  const int64_t count = std::clamp<int64_t>(wanted, 1, chunks);
  std::vector<Share> shares;
  Share next;
  int64_t chunk = 0;
  for (size_t i = 0; i < window.pieces.size(); ++i) {
    const bool begins = i == 0 || window.fresh[i];
    // Share s begins with chunk ceil(s * chunks / count).
    if (begins && chunk++ * count >= static_cast<int64_t>(shares.size()) * chunks) {
      next.first_piece = i;
      shares.push_back(next);
    }
    shares.back().end_piece = i + 1;
    if (window.fresh[i]) ++next.first_chunk;
    next.first_row += window.pieces[i].stop - window.pieces[i].start;
  }
  return shares;
}

int32_t WindowTask::Count(const Window& window, const Unit& unit, Step step) {
  const bool of_parts = step != Step::kStage && unit.staged();
  if (of_parts || FillsParts(window, unit, step)) {
    const size_t most = window.part_tasks > 0 ? static_cast<size_t>(window.part_tasks)
                                              : window.shares.size();
    return static_cast<int32_t>(std::min(most, window.parts.size()));
  }
  return IsShared(window, unit) ? static_cast<int32_t>(window.shares.size()) : 1;
}

bool WindowTask::Decodes(const Unit& unit, Step step) {
  return !unit.columns.empty() && (step == Step::kStage || !unit.staged());
}

bool WindowTask::FillsParts(const Window& window, const Unit& unit, Step step) {
  return window.part_tasks > 0 && step == Step::kFill &&
         (unit.staged() || unit.columns.empty());
}

std::span<Part> WindowTask::PartsOf(Window* window, const Unit& unit, int32_t task) {
  if (!unit.staged() && !FillsParts(*window, unit, Step::kFill)) return window->parts;
  const auto tasks = static_cast<size_t>(Count(*window, unit, Step::kFill));
  const auto number = static_cast<size_t>(task);
  const size_t first = number * window->parts.size() / tasks;
  const size_t end = (number + 1) * window->parts.size() / tasks;
  return std::span(window->parts).subspan(first, end - first);
}

WindowTask::WindowTask(RowSource* source, Window* window, int32_t unit, int32_t task,
                       Scratch* scratch)
    : source_(source),
      window_(window),
      unit_(source->units[static_cast<size_t>(unit)]),
      state_(window->units[static_cast<size_t>(unit)]),
      before_(window->before ? &window->before->units[static_cast<size_t>(unit)]
                             : nullptr),
      task_(task),
      scratch_(scratch) {}

Location WindowTask::LocationOf(size_t column, const Piece& piece, int64_t page) const {
  const auto spec = static_cast<size_t>(unit_.columns[column]);
  return Location{.file = source_->files.spec(static_cast<int32_t>(piece.file)).path,
                  .row_group = static_cast<int32_t>(piece.row_group),
                  .column = source_->columns[spec].name,
                  .page = page,
                  .file_index = static_cast<int32_t>(piece.file)};
}

WindowTask::Pieces WindowTask::PiecesOfShare() const {
  const std::vector<Share>& shares = window_->shares;
  const auto task = static_cast<size_t>(task_);
  const bool last = !IsShared(*window_, unit_) || task + 1 == shares.size();
  return {.begin = shares[task].first_piece,
          .end = last ? window_->pieces.size() : shares[task].end_piece,
          .chunk = shares[task].first_chunk,
          .chunks = static_cast<size_t>(
              std::count(window_->fresh.begin(), window_->fresh.end(), true)),
          .first = shares[task].first_row,
          .last = last};
}

Status WindowTask::Seek(size_t column, size_t piece, size_t chunk, Cursor* cursor) {
  if (window_->fresh[piece]) {
    ARROW_RETURN_NOT_OK(OpenCursor(column, piece, chunk, cursor));
  } else if (piece == 0 && cursor->recording != nullptr) {
    std::exchange(cursor->recording, nullptr)->Begin();
  }
  const int64_t skipped = window_->pieces[piece].start - cursor->row;
  if (skipped <= 0) return Status::OK();
  return cursor->fixed   ? cursor->fixed->Skip(skipped)
         : cursor->bytes ? cursor->bytes->Skip(skipped)
                         : cursor->nested->Skip(skipped);
}

Status WindowTask::Located(const Status& status, size_t column, const Piece& piece,
                           const Cursor& cursor) const {
  int64_t page = -1;
  if (cursor.fixed) page = cursor.fixed->page();
  if (cursor.bytes) page = cursor.bytes->page();
  if (cursor.nested) page = cursor.nested->page();
  Location location = LocationOf(column, piece, page);
  if (const auto row = RowOf(status)) {
    location.row = *row + source_->FirstRow(static_cast<int32_t>(piece.file),
                                            static_cast<int32_t>(piece.row_group));
  }
  return At(status, location);
}

void WindowTask::Carry(Cursor cursor, const Pieces& pieces) {
  if (!pieces.last || !window_->continued) return;
  // Thousands of resting columns would take the caches: the next column decompresses to
  // the memory that this one frees.
  if (cursor.fixed) cursor.fixed->Rest();
  if (cursor.stream) cursor.fetch_bytes = cursor.stream->Rest();
  state_.carried_bytes += cursor.fetch_bytes;
  state_.cursors.push_back(std::move(cursor));
}

Status WindowTask::ForEachRow(size_t column, const Sink& sink) {
  const Pieces pieces = PiecesOfShare();
  size_t chunk = column * pieces.chunks + pieces.chunk;
  int64_t first = pieces.first;
  Cursor cursor;
  if (task_ == 0 && before_ != nullptr) cursor = std::move(before_->cursors[column]);
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = window_->pieces[i];
    const int64_t rows = piece.stop - piece.start;
    Status status = Seek(column, i, chunk, &cursor);
    if (status.ok()) status = sink(cursor, first, rows);
    if (!status.ok()) return Located(status, column, piece, cursor);
    chunk += window_->fresh[i];
    cursor.row = piece.stop;
    first += rows;
  }
  source_->counters.decoded_values += first - pieces.first;
  Carry(std::move(cursor), pieces);
  return Status::OK();
}

Status WindowTask::ForEachTile(const TileSink& sink) {
  const Pieces pieces = PiecesOfShare();
  const size_t columns = unit_.columns.size();
  const int64_t item = unit_.width / static_cast<int64_t>(columns);
  uint8_t* memory = scratch_->Get(Scratch::kTile, Tile::Bytes(item, columns));
  if (memory == nullptr)
    return Status::OutOfMemory("Expected memory for a tile, got none");
  const Tile tile(memory, item, columns);
  const int64_t tile_rows = Tile::Rows(item, columns);
  std::vector<Cursor> cursors(columns);
  if (task_ == 0 && before_ != nullptr) cursors = std::move(before_->cursors);
  size_t chunk = pieces.chunk;
  int64_t first = pieces.first;
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = window_->pieces[i];
    for (size_t c = 0; c < columns; ++c) {
      const Status status = Seek(c, i, c * pieces.chunks + chunk, &cursors[c]);
      if (!status.ok()) return Located(status, c, piece, cursors[c]);
    }
    for (const int64_t end = first + piece.stop - piece.start; first < end;) {
      const int64_t rows = std::min(tile_rows, end - first);
      for (size_t c = 0; c < columns; ++c) {
        const Status status = cursors[c].fixed->Read(rows, tile.Column(c), item, nullptr);
        if (!status.ok()) return Located(status, c, piece, cursors[c]);
      }
      ARROW_RETURN_NOT_OK(sink(tile, first, rows));
      first += rows;
    }
    for (Cursor& cursor : cursors) cursor.row = piece.stop;
    chunk += window_->fresh[i];
  }
  source_->counters.decoded_values +=
      (first - pieces.first) * static_cast<int64_t>(columns);
  for (Cursor& cursor : cursors) Carry(std::move(cursor), pieces);
  return Status::OK();
}

Status WindowTask::Run(Step step) {
  const WorkTimer timer(&source_->counters.decode_ns);
  if (step == Step::kStage) return Stage();
  Status status;
  if (step == Step::kCount) {
    if (unit_.kind == Unit::Kind::kNested) {
      status = CountNested();
    } else {
      CountBytes();
    }
  } else {
    status = Fill();
    StreamFence();
  }
  return status;
}

void WindowTask::Finish(Step step) {
  if (step == Step::kStage) {
    const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[0])];
    const int64_t levels = unit_.kind == Unit::Kind::kNested ? RaggedLevels(spec) : 1;
    state_.sizes.resize(window_->parts.size() * static_cast<size_t>(levels));
  } else if (step == Step::kFill) {
    const WorkTimer timer(&source_->counters.decode_ns);
    state_.bytes.reset();
    state_.lists.reset();
    state_.numbers.reset();
    if (IsRowByRow(*window_, unit_) || unit_.kind == Unit::Kind::kPadded) RepeatRows();
  }
}

Status WindowTask::Stage() {
  return unit_.kind == Unit::Kind::kNested ? StageNested() : StageBytes();
}

Status WindowTask::Fill() {
  switch (unit_.kind) {
    case Unit::Kind::kFixed:
      if (IsDirect(*window_, unit_)) return FillFixedInOrder();
      if (!IsRowByRow(*window_, unit_)) return FillFixed();
      return unit_.columns.size() == 1 ? FillLists() : FillWideStack();
    case Unit::Kind::kNested:
      return FillNested();
    case Unit::Kind::kPadded:
      return FillPadded();
    case Unit::Kind::kBytes:
      FillBytes();
      return Status::OK();
    case Unit::Kind::kFile:
    case Unit::Kind::kRow:
      return FillProvenance();
    case Unit::Kind::kRealRow:
      return FillRealRows();
    case Unit::Kind::kFirst:
      FillFirst();
      return Status::OK();
  }
  return Status::OK();
}

Status WindowTask::FillFixedInOrder() {
  const Layout::Slot& slot = unit_.slots[0];
  auto part = window_->parts.begin();
  // Calls fn(row, rows, out) for the parts of window rows [first, first + rows): `row`
  // counts from `first`, and `out` is the address of the first of `rows` rows.
  const auto for_each_part = [&](int64_t first, int64_t rows, const auto& fn) -> Status {
    for (int64_t row = 0; row < rows;) {
      while (first + row >= part->first + part->rows) ++part;
      assert(part != window_->parts.end() && first + row >= part->first);
      const int64_t at = first + row - part->first;
      const int64_t n = std::min(rows - row, part->rows - at);
      uint8_t* out = Layout::Address(part->block->data(), part->areas, slot);
      ARROW_RETURN_NOT_OK(fn(row, n, out + at * slot.stride, at));
      row += n;
    }
    return Status::OK();
  };
  if (unit_.columns.size() > 1) {
    return ForEachTile([&](const Tile& tile, int64_t first, int64_t rows) {
      return for_each_part(first, rows,
                           [&](int64_t row, int64_t n, uint8_t* out, int64_t) {
                             tile.Stream(row, n, out, slot.stride);
                             return Status::OK();
                           });
    });
  }
  return ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    return for_each_part(first, rows, [&](int64_t, int64_t n, uint8_t* out, int64_t at) {
      uint8_t* valid = nullptr;
      if (!unit_.valid_slots.empty()) {
        valid =
            Layout::Address(part->block->data(), part->areas, unit_.valid_slots[0]) + at;
      }
      return cursor.fixed->Read(n, out, slot.stride, valid);
    });
  });
}

}  // namespace fastload
