#include "fastload/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fastload/chunk_open.h"
#include "fastload/gather.h"

namespace fastload {

WindowTask::WindowTask(Dataset* dataset, Window* window, int32_t unit,
                       std::vector<Cursor>* cursors, Scratch* scratch)
    : dataset_(dataset),
      window_(window),
      unit_(dataset->units[static_cast<size_t>(unit)]),
      state_(window->units[static_cast<size_t>(unit)]),
      cursors_(cursors),
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
  const ColumnSpec& spec =
      dataset_->columns[static_cast<size_t>(unit_.columns[column])];
  auto& bytes = state_.streams[stream];
  *cursor = Cursor{.fetch_bytes = bytes->MemoryBytes()};
  ARROW_ASSIGN_OR_RAISE(
      ChunkInput input,
      OpenChunk(dataset_->files.spec(file), static_cast<int32_t>(p.row_group),
                spec.leaves[static_cast<size_t>(file)], std::move(bytes)));
  if (spec.bytes) {
    ARROW_ASSIGN_OR_RAISE(cursor->bytes, BytesReader::Make(std::move(input), &spec));
  } else {
    ARROW_ASSIGN_OR_RAISE(cursor->fixed, FixedReader::Make(std::move(input), &spec));
  }
  return Status::OK();
}

Status WindowTask::ForEachRun(size_t column, const Sink& sink) {
  Cursor& cursor = (*cursors_)[column];
  const auto fresh_pieces = static_cast<size_t>(
      std::count(window_->fresh.begin(), window_->fresh.end(), true));
  size_t stream = column * fresh_pieces;
  int64_t first = 0;
  for (size_t i = 0; i < window_->pieces.size(); ++i) {
    const Piece& piece = window_->pieces[i];
    const int64_t rows = piece.stop - piece.start;
    Status status;
    if (window_->fresh[i]) status = OpenCursor(column, i, stream++, &cursor);
    if (status.ok() && piece.start > cursor.row) {
      status = cursor.fixed ? cursor.fixed->Skip(piece.start - cursor.row)
                            : cursor.bytes->Skip(piece.start - cursor.row);
    }
    if (status.ok()) status = sink(cursor, first, rows);
    if (!status.ok()) {
      int64_t page = -1;
      if (cursor.fixed) page = cursor.fixed->page();
      if (cursor.bytes) page = cursor.bytes->page();
      return At(status, PlaceOf(column, piece, page));
    }
    cursor.row = piece.stop;
    first += rows;
  }
  dataset_->counters.decoded_values += first;
  if (window_->continued) {
    state_.carried_bytes += cursor.fetch_bytes;
  } else {
    cursor = Cursor{};
  }
  return Status::OK();
}

Status WindowTask::Stage() {
  Timer timer(&dataset_->counters.decode_ns);
  StagedBytes& staged = state_.staged;
  staged.views.resize(static_cast<size_t>(window_->rows));
  if (!unit_.valid_slots.empty()) staged.valid.resize(static_cast<size_t>(window_->rows));
  ARROW_RETURN_NOT_OK(ForEachRun(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    return cursor.bytes->Read(rows, staged.views.data() + first,
                              staged.valid.empty() ? nullptr : staged.valid.data() + first,
                              &staged.owners);
  }));
  state_.value_bytes.assign(window_->parts.size(), 0);
  for (size_t p = 0; p < window_->parts.size(); ++p) {
    const Part& part = window_->parts[p];
    for (int64_t i = part.first; i < part.first + part.rows; ++i) {
      const auto row = window_->order.empty() ? static_cast<size_t>(i)
                                              : window_->order[static_cast<size_t>(i)];
      state_.value_bytes[p] += staged.views[row].size;
    }
  }
  return Status::OK();
}

Status WindowTask::Fill() {
  Timer timer(&dataset_->counters.decode_ns);
  switch (unit_.kind) {
    case Unit::Kind::kFixed:
      return window_->order.empty() ? FillFixedInOrder() : FillFixedShuffled();
    case Unit::Kind::kBytes:
      return FillBytes();
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
  // One destination a value: decode to it. More (a column under two names): copy.
  if (unit_.slots.size() != 1 || unit_.valid_slots.size() > 1) return FillFixedShuffled();
  const Layout::Slot& slot = unit_.slots[0];
  for (size_t c = 0; c < unit_.columns.size(); ++c) {
    const auto spec = static_cast<size_t>(unit_.columns[c]);
    const int64_t offset = static_cast<int64_t>(c) * ItemSize(dataset_->columns[spec].dtype);
    auto part = window_->parts.begin();
    ARROW_RETURN_NOT_OK(ForEachRun(c, [&](Cursor& cursor, int64_t first, int64_t rows) {
      while (rows > 0) {
        while (first >= part->first + part->rows) ++part;
        const int64_t at = first - part->first;
        const int64_t n = std::min(rows, part->rows - at);
        uint8_t* out = Layout::Address(part->block->data(), part->areas, slot) + offset +
                       at * slot.stride;
        uint8_t* valid = nullptr;
        if (!unit_.valid_slots.empty()) {
          valid = Layout::Address(part->block->data(), part->areas,
                                  unit_.valid_slots[0]) +
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

Status WindowTask::FillFixedShuffled() {
  uint8_t* rows = scratch_->Get(0, window_->rows * unit_.width);
  uint8_t* valid = unit_.valid_slots.empty() ? nullptr : scratch_->Get(1, window_->rows);
  if (rows == nullptr || (valid == nullptr && !unit_.valid_slots.empty())) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  int64_t offset = 0;
  for (size_t c = 0; c < unit_.columns.size(); ++c) {
    ARROW_RETURN_NOT_OK(ForEachRun(c, [&](Cursor& cursor, int64_t first, int64_t n) {
      return cursor.fixed->Read(n, rows + first * unit_.width + offset, unit_.width,
                                valid == nullptr ? nullptr : valid + first);
    }));
    const auto spec = static_cast<size_t>(unit_.columns[c]);
    offset += ItemSize(dataset_->columns[spec].dtype);
  }
  Collate(rows, valid);
  return Status::OK();
}

void WindowTask::Collate(const uint8_t* rows, const uint8_t* valid) {
  const auto copy = [this](const uint8_t* from, int64_t width, const Part& part,
                           const Layout::Slot& slot) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
    if (!window_->order.empty()) {
      Gather(from, width, window_->order.data() + part.first, part.rows, out, slot.stride);
      return;
    }
    for (int64_t i = 0; i < part.rows; ++i) {
      std::memcpy(out + i * slot.stride, from + (part.first + i) * width,
                  static_cast<size_t>(width));
    }
  };
  for (const Part& part : window_->parts) {
    for (const Layout::Slot& slot : unit_.slots) copy(rows, unit_.width, part, slot);
    for (const Layout::Slot& slot : unit_.valid_slots) copy(valid, 1, part, slot);
  }
}

Status WindowTask::FillBytes() {
  const StagedBytes& staged = state_.staged;
  for (const Part& part : window_->parts) {
    uint8_t* base = part.block->data();
    const auto row_of = [&](int64_t i) {
      const int64_t at = part.first + i;
      return window_->order.empty() ? static_cast<size_t>(at)
                                    : size_t{window_->order[static_cast<size_t>(at)]};
    };
    for (const Layout::Slot& slot : unit_.slots) {
      const int64_t* numbers = part.areas.numbers.data() + slot.number;
      auto* offsets = reinterpret_cast<int64_t*>(base + numbers[0]);
      uint8_t* values = base + numbers[1];
      int64_t end = 0;
      offsets[0] = 0;
      for (int64_t i = 0; i < part.rows; ++i) {
        const ByteView& view = staged.views[row_of(i)];
        if (view.size > 0) {
          std::memcpy(values + end, view.data, static_cast<size_t>(view.size));
        }
        end += view.size;
        offsets[i + 1] = end;
      }
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(base, part.areas, slot);
      for (int64_t i = 0; i < part.rows; ++i) out[i] = staged.valid[row_of(i)];
    }
  }
  state_.staged.owners.clear();
  return Status::OK();
}

Status WindowTask::FillProvenance() {
  uint8_t* rows = scratch_->Get(0, window_->rows * unit_.width);
  if (rows == nullptr) return Status::OutOfMemory("No memory for the rows' numbers");
  int64_t at = 0;
  for (const Piece& piece : window_->pieces) {
    const int64_t first = unit_.kind == Unit::Kind::kFile
                              ? 0
                              : dataset_->FirstRow(static_cast<int32_t>(piece.file),
                                                   static_cast<int32_t>(piece.row_group));
    for (int64_t row = piece.start; row < piece.stop; ++row, ++at) {
      if (unit_.kind == Unit::Kind::kFile) {
        reinterpret_cast<int32_t*>(rows)[at] = static_cast<int32_t>(piece.file);
      } else {
        reinterpret_cast<int64_t*>(rows)[at] = first + row;
      }
    }
  }
  Collate(rows, nullptr);
  return Status::OK();
}

}  // namespace fastload
