#include "fastload/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fastload/chunk_open.h"
#include "fastload/constant_reader.h"
#include "fastload/gather.h"
#include "fastload/selected_reader.h"

namespace fastload {
namespace {

// Rows decoded at once before they are dealt to their slots: in the L1 cache.
constexpr int64_t kBlockRows = 1024;

}  // namespace

WindowTask::WindowTask(Dataset* dataset, Window* window, int32_t unit, Scratch* scratch)
    : dataset_(dataset),
      window_(window),
      unit_(dataset->units[static_cast<size_t>(unit)]),
      state_(window->units[static_cast<size_t>(unit)]),
      before_(window->before ? &window->before->units[static_cast<size_t>(unit)]
                             : nullptr),
      scratch_(scratch) {}

Place WindowTask::PlaceOf(size_t column, const Piece& piece, int64_t page) const {
  const auto spec = static_cast<size_t>(unit_.columns[column]);
  return Place{.file = dataset_->files.spec(static_cast<int32_t>(piece.file)).path,
               .row_group = static_cast<int32_t>(piece.row_group),
               .column = dataset_->columns[spec].name,
               .page = page};
}

Status WindowTask::OpenCursor(size_t column, size_t piece, size_t stream,
                              Cursor* cursor) {
  const Piece& p = window_->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  const ColumnSpec& spec = dataset_->columns[static_cast<size_t>(unit_.columns[column])];
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
  auto& bytes = state_.streams[stream];
  *cursor = Cursor{.fetch_bytes = bytes->MemoryBytes()};
  ARROW_ASSIGN_OR_RAISE(
      ChunkInput input,
      OpenChunk(dataset_->files.spec(file), static_cast<int32_t>(p.row_group),
                spec.leaves[static_cast<size_t>(file)], std::move(bytes), &dataset_->pool,
                dataset_->verify_crc));
  input.file = file;
  ChunkPages& pages = state_.pages[stream];
  const RowBits bits = dataset_->Bits(file, static_cast<int32_t>(p.row_group));
  if (bits.bits != nullptr) {
    if (spec.depth > 0) {
      ARROW_ASSIGN_OR_RAISE(cursor->nested,
                            MakeSelectedNestedReader(std::move(input), &spec, bits));
    } else if (spec.bytes) {
      ARROW_ASSIGN_OR_RAISE(
          cursor->bytes,
          MakeSelectedBytesReader(std::move(input), &spec, bits, std::move(pages)));
    } else {
      ARROW_ASSIGN_OR_RAISE(
          cursor->fixed,
          MakeSelectedFixedReader(std::move(input), &spec, bits, std::move(pages)));
    }
  } else if (spec.depth > 0) {
    ARROW_ASSIGN_OR_RAISE(cursor->nested, NestedReader::Make(std::move(input), &spec));
  } else if (spec.bytes) {
    ARROW_ASSIGN_OR_RAISE(cursor->bytes, BytesReader::Make(std::move(input), &spec));
  } else {
    ARROW_ASSIGN_OR_RAISE(cursor->fixed, FixedReader::Make(std::move(input), &spec));
  }
  return Status::OK();
}

Status WindowTask::ForEachRow(size_t column, const Sink& sink) {
  Cursor cursor;
  if (before_ != nullptr) cursor = std::move(before_->cursors[column]);
  const auto fresh_pieces =
      static_cast<size_t>(std::count(window_->fresh.begin(), window_->fresh.end(), true));
  size_t stream = column * fresh_pieces;
  int64_t first = 0;
  for (size_t i = 0; i < window_->pieces.size(); ++i) {
    const Piece& piece = window_->pieces[i];
    const int64_t rows = piece.stop - piece.start;
    Status status;
    if (window_->fresh[i]) status = OpenCursor(column, i, stream++, &cursor);
    if (status.ok() && piece.start > cursor.row) {
      const int64_t skipped = piece.start - cursor.row;
      status = cursor.fixed   ? cursor.fixed->Skip(skipped)
               : cursor.bytes ? cursor.bytes->Skip(skipped)
                              : cursor.nested->Skip(skipped);
    }
    if (status.ok()) status = sink(cursor, first, rows);
    if (!status.ok()) {
      int64_t page = -1;
      if (cursor.fixed) page = cursor.fixed->page();
      if (cursor.bytes) page = cursor.bytes->page();
      if (cursor.nested) page = cursor.nested->page();
      Place place = PlaceOf(column, piece, page);
      if (const auto row = RowOf(status)) {
        place.row = *row + dataset_->FirstRow(static_cast<int32_t>(piece.file),
                                              static_cast<int32_t>(piece.row_group));
      }
      return At(status, place);
    }
    cursor.row = piece.stop;
    first += rows;
  }
  dataset_->counters.decoded_values += first;
  if (window_->continued) {
    state_.carried_bytes += cursor.fetch_bytes;
    state_.cursors.push_back(std::move(cursor));
  }
  return Status::OK();
}

template <typename Fn>
void WindowTask::ForEachRun(const Part& part, const Fn& fn) const {
  if (!window_->shuffled) {
    fn(Run{.first = 0,
           .rows = part.rows,
           .bucket = part.first,
           .within = nullptr,
           .ahead = 0});
    return;
  }
  const Shuffle& shuffle = window_->shuffle;
  int64_t done = 0;
  int64_t output = 0;  // of the take's first position
  for (const Take& take : window_->takes) {
    const int64_t skipped = std::max<int64_t>(0, part.first + done - output);
    output += take.stop - take.start;
    int64_t position = take.start + skipped;
    while (position < take.stop && done < part.rows) {
      const auto above = std::upper_bound(shuffle.bucket_starts.begin(),
                                          shuffle.bucket_starts.end(), position);
      const int64_t end = std::min<int64_t>(*above, take.stop);
      const int64_t rows = std::min(end - position, part.rows - done);
      const int64_t b = above - shuffle.bucket_starts.begin() - 1;
      const int64_t bucket = shuffle.SlotStart(b);
      // The same place in the next bucket; the last one has none.
      const int64_t next = shuffle.SlotStart(b + 1) + position - *(above - 1);
      const bool more = next + rows <= shuffle.slot_count();
      fn(Run{.first = done,
             .rows = rows,
             .bucket = bucket,
             .within = shuffle.within.data() + position,
             .ahead = more ? next : -1});
      position += rows;
      done += rows;
    }
  }
}

Status WindowTask::Stage() {
  Timer timer(&dataset_->counters.decode_ns);
  if (unit_.kind == Unit::Kind::kNested) return StageNested();
  StagedBytes& staged = state_.staged;
  const bool valid = !unit_.valid_slots.empty();
  const bool dealt = window_->dealt();
  staged.views.resize(static_cast<size_t>(window_->slots()));
  if (valid) staged.valid.resize(static_cast<size_t>(window_->slots()));
  std::vector<ByteView> views(dealt ? kBlockRows : 0);
  std::vector<uint8_t> valids(dealt && valid ? kBlockRows : 0);
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    if (!dealt) {
      return cursor.bytes->Read(rows, staged.views.data() + first,
                                valid ? staged.valid.data() + first : nullptr,
                                &staged.owners);
    }
    for (int64_t end = first + rows; first < end; first += kBlockRows) {
      const int64_t n = std::min(kBlockRows, end - first);
      ARROW_RETURN_NOT_OK(cursor.bytes->Read(
          n, views.data(), valid ? valids.data() : nullptr, &staged.owners));
      const uint32_t* slots = window_->shuffle.slots.data() + first;
      for (int64_t i = 0; i < n; ++i)
        staged.views[slots[i]] = views[static_cast<size_t>(i)];
      if (valid) Scatter(valids.data(), 1, slots, n, staged.valid.data());
    }
    return Status::OK();
  }));
  state_.sizes.clear();
  for (const Part& part : window_->parts) {
    int64_t bytes = 0;
    ForEachRun(part, [&](const Run& run) {
      const ByteView* bucket = staged.views.data() + run.bucket;
      for (int64_t i = 0; i < run.rows; ++i) {
        bytes += bucket[run.within == nullptr ? i : run.within[i]].size;
      }
    });
    state_.sizes.push_back(bytes);
  }
  return Status::OK();
}

Status WindowTask::Fill() {
  Timer timer(&dataset_->counters.decode_ns);
  switch (unit_.kind) {
    case Unit::Kind::kFixed: {
      // One destination a value: decode to it. More (a column under two names): copy.
      const bool direct =
          !window_->shuffled && unit_.slots.size() == 1 && unit_.valid_slots.size() <= 1;
      if (direct) return FillFixedInOrder();
      return unit_.list ? FillLists() : FillFixed();
    }
    case Unit::Kind::kNested:
      FillNested();
      return Status::OK();
    case Unit::Kind::kBytes:
      FillBytes();
      return Status::OK();
    case Unit::Kind::kFile:
    case Unit::Kind::kRow:
      return FillProvenance();
    case Unit::Kind::kRealRow:
      for (const Part& part : window_->parts) {
        uint8_t* out = Layout::Address(part.block->data(), part.areas, unit_.slots[0]);
        std::memset(out, 1, static_cast<size_t>(part.real_rows));
        std::memset(out + part.real_rows, 0,
                    static_cast<size_t>(part.rows - part.real_rows));
      }
      return Status::OK();
  }
  return Status::OK();
}

Status WindowTask::FillFixedInOrder() {
  const Layout::Slot& slot = unit_.slots[0];
  for (size_t c = 0; c < unit_.columns.size(); ++c) {
    const auto spec = static_cast<size_t>(unit_.columns[c]);
    const int64_t offset =
        static_cast<int64_t>(c) * ItemSize(dataset_->columns[spec].dtype);
    auto part = window_->parts.begin();
    ARROW_RETURN_NOT_OK(ForEachRow(c, [&](Cursor& cursor, int64_t first, int64_t rows) {
      while (rows > 0) {
        while (first >= part->first + part->rows) ++part;
        const int64_t at = first - part->first;
        const int64_t n = std::min(rows, part->rows - at);
        uint8_t* out = Layout::Address(part->block->data(), part->areas, slot) + offset +
                       at * slot.stride;
        uint8_t* valid = nullptr;
        if (!unit_.valid_slots.empty()) {
          valid =
              Layout::Address(part->block->data(), part->areas, unit_.valid_slots[0]) +
              at;
        }
        ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, out, slot.stride, valid));
        first += n;
        rows -= n;
      }
      return Status::OK();
    }));
  }
  return Status::OK();
}

Status WindowTask::FillDealtColumn() {
  const auto& spec = dataset_->columns[static_cast<size_t>(unit_.columns[0])];
  const int64_t width = unit_.width;
  const bool with_valid = !unit_.valid_slots.empty();
  const uint32_t* slots = window_->shuffle.slots.data();
  // A block holds values or codes, which are smaller, then validity.
  uint8_t* block = scratch_->Get(Scratch::kBlock, kBlockRows * (width + 1));
  uint8_t* values = scratch_->Get(Scratch::kRows, window_->slots() * (width + 1));
  if (block == nullptr || values == nullptr) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  uint8_t* block_valid = with_valid ? block + kBlockRows * width : nullptr;
  uint8_t* valid = with_valid ? values + window_->slots() * width : nullptr;
  const auto chunks = std::max<int64_t>(
      1, std::count(window_->fresh.begin(), window_->fresh.end(), true));
  std::optional<CodeTable> table;
  bool coded = true;  // every row so far
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    const int64_t end = first + rows;
    int64_t base = -1;  // code of the dictionary's first entry; -1: rows are values
    if (coded) {
      ARROW_ASSIGN_OR_RAISE(const auto dictionary, cursor.fixed->Dictionary());
      const auto entries = static_cast<int64_t>(dictionary.size()) / width;
      if (entries > 0 && !table) {
        const int64_t code_bytes = CodeTable::CodeBytes(entries, chunks, width);
        if (code_bytes > 0) {
          ARROW_ASSIGN_OR_RAISE(table, CodeTable::Make(window_->slots(), code_bytes,
                                                       width, spec.fill, scratch_));
        }
      }
      if (entries > 0 && table) {
        const auto added = table->Add(dictionary);
        if (added) base = *added;
      }
    }
    while (base >= 0 && first < end) {
      const int64_t n = std::min(kBlockRows, end - first);
      const FixedReader::Codes codes{table->code_bytes(), static_cast<uint32_t>(base),
                                     CodeTable::kNull};
      ARROW_ASSIGN_OR_RAISE(const int64_t read,
                            cursor.fixed->ReadCodes(n, codes, block, block_valid));
      Scatter(block, codes.bytes, slots + first, read, table->codes());
      if (with_valid) Scatter(block_valid, 1, slots + first, read, valid);
      first += read;
      if (read < n) base = -1;
    }
    if (coded && first < end) {
      // The rest are values: so is, from now on, what was dealt out as codes.
      coded = false;
      for (int64_t row = 0; row < first; ++row) {
        std::memcpy(values + slots[row] * width, table->Element(slots[row]),
                    static_cast<size_t>(width));
      }
    }
    for (; first < end; first += kBlockRows) {
      const int64_t n = std::min(kBlockRows, end - first);
      ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, block, width, block_valid));
      Scatter(block, width, slots + first, n, values);
      if (with_valid) Scatter(block_valid, 1, slots + first, n, valid);
    }
    return Status::OK();
  }));
  Collate(values, valid, coded && table ? &*table : nullptr);
  return Status::OK();
}

Status WindowTask::FillFixed() {
  const bool dealt = window_->dealt();
  if (dealt && unit_.columns.size() == 1) return FillDealtColumn();
  const int64_t width = unit_.width;
  const bool with_valid = !unit_.valid_slots.empty();
  // By slot: the window's rows, then their validity.
  const int64_t valid_at = RoundUp(window_->slots() * width, kAlignment);
  uint8_t* slots =
      scratch_->Get(Scratch::kRows, valid_at + (with_valid ? window_->slots() : 0));
  uint8_t* block = scratch_->Get(Scratch::kBlock, kBlockRows * width);
  if (slots == nullptr || block == nullptr) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  uint8_t* valid = with_valid ? slots + valid_at : nullptr;
  int64_t offset = 0;
  for (size_t c = 0; c < unit_.columns.size(); ++c) {
    const auto spec = static_cast<size_t>(unit_.columns[c]);
    const int64_t item = ItemSize(dataset_->columns[spec].dtype);
    ARROW_RETURN_NOT_OK(ForEachRow(c, [&](Cursor& cursor, int64_t first, int64_t rows) {
      if (!dealt) {
        return cursor.fixed->Read(rows, slots + first * width + offset, width,
                                  with_valid ? valid + first : nullptr);
      }
      for (int64_t end = first + rows; first < end; first += kBlockRows) {
        const int64_t n = std::min(kBlockRows, end - first);
        ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, block, item, nullptr));
        const uint32_t* to = window_->shuffle.slots.data() + first;
        for (int64_t i = 0; i < n; ++i) {
          std::memcpy(slots + to[i] * width + offset, block + i * item,
                      static_cast<size_t>(item));
        }
      }
      return Status::OK();
    }));
    offset += item;
  }
  Collate(slots, valid, nullptr);
  return Status::OK();
}

void WindowTask::Collate(const uint8_t* slots, const uint8_t* valid, CodeTable* codes) {
  const auto copy = [this](const uint8_t* from, int64_t width, const Part& part,
                           const Layout::Slot& slot) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
    ForEachRun(part, [&](const Run& run) {
      const uint8_t* bucket = from + run.bucket * width;
      uint8_t* to = out + run.first * slot.stride;
      if (run.within != nullptr) {
        const uint8_t* ahead = run.ahead < 0 ? nullptr : from + run.ahead * width;
        Gather(bucket, width, run.within, run.rows, to, slot.stride, ahead);
        return;
      }
      for (int64_t i = 0; i < run.rows; ++i) {
        std::memcpy(to + i * slot.stride, bucket + i * width, static_cast<size_t>(width));
      }
    });
  };
  const auto look_up = [&](const Part& part, const Layout::Slot& slot) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
    ForEachRun(part, [&](const Run& run) {
      const int64_t bytes = codes->code_bytes();
      const uint8_t* ahead = run.ahead < 0 ? nullptr : codes->codes() + run.ahead * bytes;
      GatherCodes(codes->codes() + run.bucket * bytes, bytes, run.within, run.rows,
                  codes->table(), unit_.width, out + run.first * slot.stride, ahead);
    });
  };
  for (const Part& part : window_->parts) {
    for (const Layout::Slot& slot : unit_.slots) {
      codes == nullptr ? copy(slots, unit_.width, part, slot) : look_up(part, slot);
    }
    for (const Layout::Slot& slot : unit_.valid_slots) copy(valid, 1, part, slot);
  }
}

void WindowTask::FillBytes() {
  const StagedBytes& staged = state_.staged;
  for (const Part& part : window_->parts) {
    uint8_t* base = part.block->data();
    for (const Layout::Slot& slot : unit_.slots) {
      const int64_t* numbers = part.areas.numbers.data() + slot.number;
      auto* offsets = reinterpret_cast<int64_t*>(base + numbers[0]);
      uint8_t* values = base + numbers[2];
      int64_t end = 0;
      *offsets++ = 0;
      ForEachRun(part, [&](const Run& run) {
        const ByteView* bucket = staged.views.data() + run.bucket;
        for (int64_t i = 0; i < run.rows; ++i) {
          const ByteView& view = bucket[run.within == nullptr ? i : run.within[i]];
          if (view.size > 0) {
            std::memcpy(values + end, view.data, static_cast<size_t>(view.size));
          }
          end += view.size;
          *offsets++ = end;
        }
      });
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(base, part.areas, slot);
      ForEachRun(part, [&](const Run& run) {
        const uint8_t* bucket = staged.valid.data() + run.bucket;
        for (int64_t i = 0; i < run.rows; ++i) {
          *out++ = bucket[run.within == nullptr ? i : run.within[i]];
        }
      });
    }
  }
  state_.staged.owners.clear();
}

Status WindowTask::FillProvenance() {
  const int64_t width = unit_.width;
  const bool dealt = window_->dealt();
  uint8_t* slots = scratch_->Get(Scratch::kRows, window_->slots() * width);
  if (slots == nullptr) return Status::OutOfMemory("No memory for the rows' numbers");
  int64_t at = 0;
  for (const Piece& piece : window_->pieces) {
    const bool file = unit_.kind == Unit::Kind::kFile;
    const int64_t first = file
                              ? 0
                              : dataset_->FirstRow(static_cast<int32_t>(piece.file),
                                                   static_cast<int32_t>(piece.row_group));
    SelectedRows rows(dataset_->Bits(static_cast<int32_t>(piece.file),
                                     static_cast<int32_t>(piece.row_group)));
    rows.Skip(piece.start);
    for (int64_t left = piece.stop - piece.start; left > 0;) {
      const SelectedRows::Span span = rows.Next(left, /*blocks=*/false);
      if (span.rows == 0) return Status::Invalid("Expected more rows that stay");
      for (int64_t row = span.start; row < span.start + span.rows; ++row, ++at) {
        const int64_t slot =
            dealt ? int64_t{window_->shuffle.slots[static_cast<size_t>(at)]} : at;
        const int64_t value = file ? piece.file : first + row;
        // Little-endian: the low bytes of a file's index are its int32.
        std::memcpy(slots + slot * width, &value, static_cast<size_t>(width));
      }
      left -= span.rows;
    }
  }
  Collate(slots, nullptr, nullptr);
  return Status::OK();
}

}  // namespace fastload
