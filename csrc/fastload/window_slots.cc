// Fixed-width columns that go through slots: dealt out for a shuffle, or copied to more
// than one output.
#include <algorithm>
#include <cstring>
#include <optional>

#include "fastload/gather.h"
#include "fastload/row_selection.h"
#include "fastload/window.h"
#include "fastload/window_runs.h"

namespace fastload {

// One column, dealt out in blocks: as dictionary codes if they all are.
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

// Copies every output row from its slot; the values are looked up by `codes`, if any.
void WindowTask::Collate(const uint8_t* slots, const uint8_t* valid, CodeTable* codes) {
  const auto copy = [this](const uint8_t* from, int64_t width, const Part& part,
                           const Layout::Slot& slot) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
    ForEachRun(*window_, part, [&](const SlotRun& run) {
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
    ForEachRun(*window_, part, [&](const SlotRun& run) {
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

Status WindowTask::FillRealRows() {
  const bool mixed = std::ranges::any_of(window_->pieces, &Piece::substitute);
  if (mixed) {
    uint8_t* slots = scratch_->Get(Scratch::kRows, window_->slots());
    if (slots == nullptr) return Status::OutOfMemory("No memory to mark the real rows");
    const bool dealt = window_->dealt();
    int64_t at = 0;
    for (const Piece& piece : window_->pieces) {
      for (const int64_t end = at + piece.stop - piece.start; at < end; ++at) {
        const int64_t slot =
            dealt ? int64_t{window_->shuffle.slots[static_cast<size_t>(at)]} : at;
        slots[slot] = piece.substitute ? 0 : 1;
      }
    }
    Collate(slots, nullptr, nullptr);
  }
  for (const Part& part : window_->parts) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, unit_.slots[0]);
    if (!mixed) std::memset(out, 1, static_cast<size_t>(part.real_rows));
    std::memset(out + part.real_rows, 0, static_cast<size_t>(part.rows - part.real_rows));
  }
  return Status::OK();
}

}  // namespace fastload
