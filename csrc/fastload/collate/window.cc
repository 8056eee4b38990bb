#include "fastload/collate/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fastload/base/stream_copy.h"
#include "fastload/blocks/decoded_reader.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/constant_reader.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/decode/repeated_reader.h"
#include "fastload/decode/selected_reader.h"

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

Status WindowTask::OpenCursor(size_t column, size_t piece, size_t stream,
                              Cursor* cursor) {
  const Piece& p = window_->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[column])];
  const auto hold_copies = [&] {
    if (!window_->copies.empty()) cursor->copies = window_->copies[piece];
  };
  if (source_->blocks != nullptr) {
    ARROW_RETURN_NOT_OK(
        OpenBlock(window_->blocks[piece], spec, CopiesOf(*window_, piece), cursor));
    hold_copies();
    return Status::OK();
  }
  if (!spec.HasLeaf(file)) {
    *cursor = Cursor{};
    if (spec.depth > 0) {
      cursor->nested = MakeNullNestedReader(&spec);
    } else if (spec.bytes) {
      cursor->bytes = MakeConstantBytesReader(&spec, file);
    } else {
      cursor->fixed = MakeConstantFixedReader(&spec, file);
    }
    return Status::OK();
  }
  if (state_.kept_rows[stream] != nullptr) {
    *cursor = Cursor{};
    std::shared_ptr<const KeptRows> rows = std::move(state_.kept_rows[stream]);
    if (spec.bytes) {
      cursor->bytes = source_->kept_rows.ReadBytes(std::move(rows));
    } else {
      cursor->fixed = source_->kept_rows.Read(std::move(rows));
    }
    return Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(ChunkInput input, OpenPages(column, piece, stream, cursor));
  ChunkPages& pages = state_.pages[stream];
  hold_copies();
  const int64_t page_bytes = input.page_bytes;
  const int64_t kept_rows = RowsToKeep(column, piece, page_bytes);
  if (kept_rows == 0) KeepPages(column, piece, stream, &input);
  ARROW_RETURN_NOT_OK(OpenChunkRows(std::move(input), spec, BitsOf(*source_, *window_, p),
                                    CopiesOf(*window_, piece), std::move(pages), cursor));
  if (kept_rows == 0) return Status::OK();
  const KeptSelections::Key key = RowsKey(unit_, unit_.columns[column], p);
  if (spec.bytes) {
    cursor->bytes = source_->kept_rows.RecordBytes(key, kept_rows, page_bytes,
                                                   std::move(cursor->bytes));
  } else {
    cursor->fixed = source_->kept_rows.Record(key, kept_rows, ItemBytes(spec),
                                              std::move(cursor->fixed));
  }
  return Status::OK();
}

int64_t WindowTask::RowsToKeep(size_t column, size_t piece, int64_t page_bytes) const {
  const Piece& p = window_->pieces[piece];
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[column])];
  if (spec.depth > 0 || !MayKeepRows(*source_, *window_, piece)) return 0;
  const RowBits bits = BitsOf(*source_, *window_, p);
  const int64_t rows = CountSelected(bits);
  if (!spec.bytes) return rows * ItemBytes(spec) <= page_bytes ? rows : 0;
  // The bytes of pages are those of views at most, and may be those of a dictionary.
  const double share = static_cast<double>(rows) / static_cast<double>(bits.rows);
  const auto views = static_cast<double>(rows * static_cast<int64_t>(sizeof(ByteView)));
  const auto all = static_cast<double>(page_bytes);
  if (views + share * all > all) return 0;
  return source_->kept_rows.Refuses(RowsKey(unit_, unit_.columns[column], p)) ? 0 : rows;
}

Status WindowTask::OpenChunkRows(ChunkInput input, const ColumnSpec& spec, RowBits bits,
                                 RowCopies copies, ChunkPages pages, Cursor* cursor) {
  const RepeatedRows rows{.copies = copies,
                          .bits = bits,
                          .decodes_gaps = NeverFails(spec, input),
                          .nullable = input.descr->max_definition_level() > 0};
  // Opens a reader of the selected rows: `whole` if all rows are selected.
  const auto open = [&](const ColumnSpec* base, auto* whole, auto* selected) {
    return bits.all() ? whole(std::move(input), base)
                      : selected(std::move(input), base, bits, std::move(pages));
  };
  if (spec.depth > 0) {
    ARROW_ASSIGN_OR_RAISE(cursor->nested,
                          open(&spec, NestedReader::Make, MakeSelectedNestedReader));
    if (!copies.single()) {
      cursor->nested = MakeRepeatedNestedReader(copies, &spec, std::move(cursor->nested));
    }
    return Status::OK();
  }
  if (spec.bytes) {
    const auto make = [&](const ColumnSpec* base) {
      return open(base, MakeBytesReader, MakeSelectedBytesReader);
    };
    return (copies.single() ? make(&spec) : MakeRepeatedBytesReader(rows, &spec, make))
        .Value(&cursor->bytes);
  }
  const auto make = [&](const ColumnSpec* base) {
    return open(base, MakeFixedReader, MakeSelectedFixedReader);
  };
  return (copies.single() ? make(&spec) : MakeRepeatedFixedReader(rows, &spec, make))
      .Value(&cursor->fixed);
}

Result<ChunkInput> WindowTask::OpenPages(size_t column, size_t piece, size_t stream,
                                         Cursor* cursor) {
  const Piece& p = window_->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  const auto row_group = static_cast<int32_t>(p.row_group);
  const FileSpec& file_spec = source_->files.spec(file);
  const int32_t leaf = source_->columns[static_cast<size_t>(unit_.columns[column])]
                           .leaves[static_cast<size_t>(file)];
  const KeptPages::Key key(file, row_group, leaf);
  KeptPages& kept = source_->kept;
  auto& chunk = state_.kept[stream];
  if (chunk == nullptr && window_->shared[piece]) {
    // Another lane may have read the chunk since the window was prepared.
    chunk = kept.Find(key);
    if (chunk != nullptr) state_.streams[stream].reset();
  }
  if (chunk != nullptr) {
    *cursor = Cursor{};
    ChunkInput input{.file = file,
                     .descr = file_spec.Column(leaf),
                     .rows = file_spec.RowsOf(row_group),
                     .levels = chunk->levels(),
                     .pool = &source_->pool};
    input.pages = kept.Read(std::move(chunk));
    return input;
  }
  auto& bytes = state_.streams[stream];
  *cursor = Cursor{.stream = bytes, .fetch_bytes = bytes->MemoryBytes()};
  ARROW_ASSIGN_OR_RAISE(
      ChunkInput input,
      OpenChunk(file_spec, state_.chunks[stream], leaf, std::move(bytes), &source_->pool,
                {.verify_crc = source_->verify_crc}));
  input.file = file;
  input.decoded_pages = &source_->counters.decoded_pages;
  input.dictionary.kept = std::move(state_.dictionaries[stream]);
  if (p.numbers >= 0 && source_->dictionaries.on() && state_.pages[stream].told_apart) {
    input.dictionary.keep =
        [dictionaries = &source_->dictionaries,
         key = KeptDictionaries::Key{file, row_group, unit_.columns[column]}](
            std::shared_ptr<const DecodedDictionary> dictionary) {
          dictionaries->Keep(key, std::move(dictionary));
        };
  }
  return input;
}

void WindowTask::KeepPages(size_t column, size_t piece, size_t stream,
                           ChunkInput* input) {
  const Piece& p = window_->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  // The page cache keeps what is not compressed as well.
  const bool worth_keeping = input->compressed || source_->files.spec(file).remote;
  const ChunkPages& pages = state_.pages[stream];
  if (!worth_keeping || !pages.omitted.empty() || pages.lacks_dictionary) return;
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[column])];
  const KeptPages::Key key(file, static_cast<int32_t>(p.row_group),
                           spec.leaves[static_cast<size_t>(file)]);
  KeptPages& kept = source_->kept;
  // Each lane passes over the pages of other lanes.
  input->pages =
      window_->shared[piece] && BitsOf(*source_, *window_, p).all()
          ? kept.RecordWhole(key, input->levels, input->page_bytes,
                             std::move(input->pages))
          : kept.Record(key, input->levels, input->page_bytes, std::move(input->pages));
}

Status WindowTask::OpenBlock(const DecodedQueue::Block& block, const ColumnSpec& spec,
                             RowCopies copies, Cursor* cursor) {
  *cursor = Cursor{};
  const RepeatedRows rows{.copies = copies};
  if (spec.depth > 0) {
    ARROW_ASSIGN_OR_RAISE(cursor->nested, MakeDecodedNestedReader(block, &spec));
    if (!copies.single()) {
      cursor->nested = MakeRepeatedNestedReader(copies, &spec, std::move(cursor->nested));
    }
    return Status::OK();
  }
  if (spec.bytes) {
    const auto make = [&](const ColumnSpec* base) {
      return MakeDecodedBytesReader(block, base);
    };
    return (copies.single() ? make(&spec) : MakeRepeatedBytesReader(rows, &spec, make))
        .Value(&cursor->bytes);
  }
  const auto make = [&](const ColumnSpec* base) {
    return MakeDecodedFixedReader(block, base);
  };
  return (copies.single() ? make(&spec) : MakeRepeatedFixedReader(rows, &spec, make))
      .Value(&cursor->fixed);
}

WindowTask::Pieces WindowTask::PiecesOfShare() const {
  const std::vector<Share>& shares = window_->shares;
  const auto task = static_cast<size_t>(task_);
  const bool last = !IsShared(*window_, unit_) || task + 1 == shares.size();
  return {.begin = shares[task].first_piece,
          .end = last ? window_->pieces.size() : shares[task].end_piece,
          .stream = shares[task].first_chunk,
          .chunks = static_cast<size_t>(
              std::count(window_->fresh.begin(), window_->fresh.end(), true)),
          .first = shares[task].first_row,
          .last = last};
}

Status WindowTask::Seek(size_t column, size_t piece, size_t stream, Cursor* cursor) {
  if (window_->fresh[piece]) {
    ARROW_RETURN_NOT_OK(OpenCursor(column, piece, stream, cursor));
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
  size_t stream = column * pieces.chunks + pieces.stream;
  int64_t first = pieces.first;
  Cursor cursor;
  if (task_ == 0 && before_ != nullptr) cursor = std::move(before_->cursors[column]);
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = window_->pieces[i];
    const int64_t rows = piece.stop - piece.start;
    Status status = Seek(column, i, stream, &cursor);
    if (status.ok()) status = sink(cursor, first, rows);
    if (!status.ok()) return Located(status, column, piece, cursor);
    stream += window_->fresh[i];
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
  size_t stream = pieces.stream;
  int64_t first = pieces.first;
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const Piece& piece = window_->pieces[i];
    for (size_t c = 0; c < columns; ++c) {
      const Status status = Seek(c, i, c * pieces.chunks + stream, &cursors[c]);
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
    stream += window_->fresh[i];
  }
  source_->counters.decoded_values +=
      (first - pieces.first) * static_cast<int64_t>(columns);
  for (Cursor& cursor : cursors) Carry(std::move(cursor), pieces);
  return Status::OK();
}

Status WindowTask::Run(Step step) {
  Timer timer(&source_->counters.decode_ns);
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
    Timer timer(&source_->counters.decode_ns);
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
