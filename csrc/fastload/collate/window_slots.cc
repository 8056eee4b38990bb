// Fixed-width columns that go through slots: columns that are dealt for a shuffle, or
// copied to more than one output.
#include <algorithm>
#include <cstring>
#include <optional>

#include "fastload/base/gather.h"
#include "fastload/base/prefetch.h"
#include "fastload/collate/dealt_column.h"
#include "fastload/collate/window.h"
#include "fastload/collate/window_runs.h"
#include "fastload/plan/row_copies.h"
#include "fastload/plan/row_selection.h"

namespace fastload {

int64_t WindowTask::Chunks() const {
  return std::max<int64_t>(
      1, std::count(window_->fresh.begin(), window_->fresh.end(), true));
}

// Deals the column in blocks: as dictionary codes if all rows are codes, else as values.
Result<DealtColumn> WindowTask::Deal(const DealMemory& memory) {
  const auto& spec = source_->columns[static_cast<size_t>(unit_.columns[0])];
  const int64_t item = unit_.width;
  const uint32_t* slots = window_->shuffle.slots.data();
  uint8_t* const block = memory.block;
  uint8_t* const values = memory.values;
  uint8_t* const dealt_codes = memory.codes;
  uint8_t* const valid = memory.valid;
  // A block holds values, or codes, which are smaller, then validity.
  uint8_t* block_valid = valid != nullptr ? block + kBlockRows * item : nullptr;
  std::optional<CodeTable> table;
  bool coded = true;  // true if all rows so far are codes
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    const int64_t end = first + rows;
    int64_t base = -1;  // code of the dictionary's first entry; -1: rows are values
    if (coded) {
      ARROW_ASSIGN_OR_RAISE(const auto dictionary, cursor.fixed->Dictionary());
      const auto entries = static_cast<int64_t>(dictionary.size()) / item;
      if (entries > 0 && !table) {
        const int64_t code_bytes = CodeTable::CodeBytes(entries, Chunks(), item);
        if (code_bytes > 0) {
          table = CodeTable(memory.table, code_bytes, item, spec.fill);
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
      Scatter(block, codes.bytes, slots + first, read, dealt_codes);
      if (valid != nullptr) Scatter(block_valid, 1, slots + first, read, valid);
      first += read;
      if (read < n) base = -1;
    }
    if (coded && first < end) {
      // The remaining rows are values, so the rows dealt as codes become values, too.
      coded = false;
      for (int64_t row = 0; row < first; ++row) {
        const uint8_t* code = dealt_codes + slots[row] * table->code_bytes();
        std::memcpy(values + slots[row] * item, table->Element(code),
                    static_cast<size_t>(item));
      }
    }
    for (; first < end; first += kBlockRows) {
      const int64_t n = std::min(kBlockRows, end - first);
      ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, block, item, block_valid));
      Scatter(block, item, slots + first, n, values);
      if (valid != nullptr) Scatter(block_valid, 1, slots + first, n, valid);
    }
    return Status::OK();
  }));
  if (!coded) table.reset();
  return DealtColumn{item, values, valid, dealt_codes, table};
}

Status WindowTask::FillDealtColumn() {
  const int64_t item = unit_.width;
  const bool with_valid = !unit_.valid_slots.empty();
  const int64_t slots = window_->slots();
  const int64_t value_bytes = RoundUp(slots * item, kAlignment);
  const int64_t code_bytes = CodeTable::MostCodeBytes(item);
  uint8_t* block = scratch_->Get(Scratch::kBlock, kBlockRows * (item + 1));
  uint8_t* values = scratch_->Get(Scratch::kRows, value_bytes + (with_valid ? slots : 0));
  uint8_t* codes = scratch_->Get(Scratch::kCodes, slots * code_bytes);
  uint8_t* table =
      scratch_->Get(Scratch::kTable, CodeTable::TableBytes(code_bytes, item));
  if (block == nullptr || values == nullptr || codes == nullptr || table == nullptr) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  ARROW_ASSIGN_OR_RAISE(const DealtColumn column,
                        Deal({.block = block,
                              .values = values,
                              .valid = with_valid ? values + value_bytes : nullptr,
                              .codes = codes,
                              .table = table}));
  CollateColumn(column);
  return Status::OK();
}

// Copies every output row from its slot.
void WindowTask::CollateColumn(const DealtColumn& column) {
  for (const Part& part : window_->parts) {
    for (const Layout::Slot& slot : unit_.slots) {
      uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
      ForEachRun(*window_, part, [&](const SlotRun& run) {
        column.Gather(run, out + run.first * slot.stride, slot.stride);
      });
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
      ForEachRun(*window_, part, [&](const SlotRun& run) {
        column.GatherValid(run, out + run.first * slot.stride, slot.stride);
      });
    }
  }
}

// Fills outputs from slots in order; a window of one bucket, or without a shuffle, is not
// dealt.
Status WindowTask::FillFixed() {
  if (window_->dealt()) {
    return unit_.columns.size() == 1 ? FillDealtColumn() : FillDealtStack();
  }
  const int64_t width = unit_.width;
  const bool with_valid = !unit_.valid_slots.empty();
  // The memory holds, by slot, the window's rows, then their validity.
  const int64_t valid_at = RoundUp(window_->slots() * width, kAlignment);
  uint8_t* slots =
      scratch_->Get(Scratch::kRows, valid_at + (with_valid ? window_->slots() : 0));
  if (slots == nullptr) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  uint8_t* valid = with_valid ? slots + valid_at : nullptr;
  if (unit_.columns.size() == 1) {
    ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
      return cursor.fixed->Read(rows, slots + first * width, width,
                                with_valid ? valid + first : nullptr);
    }));
  } else {
    ARROW_RETURN_NOT_OK(ForEachTile([&](const Tile& tile, int64_t first, int64_t rows) {
      tile.Store(0, rows, slots + first * width, width);
      return Status::OK();
    }));
  }
  CollateColumn({.item = width, .values = slots, .valid = valid});
  return Status::OK();
}

void WindowTask::FillFirst() {
  for (const Part& part : window_->parts) {
    uint8_t* base = part.block->data();
    auto* out =
        reinterpret_cast<int64_t*>(Layout::Address(base, part.areas, unit_.slots[0]));
    for (const Segment& segment : window_->SegmentsOf(part)) *out++ = segment.first;
  }
}

Status WindowTask::FillProvenance() {
  const int64_t width = unit_.width;
  const bool dealt = window_->dealt();
  uint8_t* slots = scratch_->Get(Scratch::kRows, window_->slots() * width);
  if (slots == nullptr)
    return Status::OutOfMemory("Expected memory for the rows' numbers, got none");
  int64_t at = 0;
  for (const Piece& piece : window_->pieces) {
    const bool file = unit_.kind == Unit::Kind::kFile;
    const int64_t first = file ? 0
                               : source_->FirstRow(static_cast<int32_t>(piece.file),
                                                   static_cast<int32_t>(piece.row_group));
    SelectedRows rows(BitsOf(*source_, *window_, piece));
    const auto put = [&](int64_t row) {
      const int64_t slot =
          dealt ? int64_t{window_->shuffle.slots[static_cast<size_t>(at)]} : at;
      const int64_t value = file ? piece.file : first + row;
      // Little-endian: an int32 is the low bytes of the file's index.
      std::memcpy(slots + slot * width, &value, static_cast<size_t>(width));
      ++at;
    };
    const RowCopies copies = CopiesOf(*window_, piece);
    if (!copies.single()) {
      int64_t passed = 0;  // selected rows that `rows` has skipped
      for (int64_t copy = piece.start; copy < piece.stop; ++copy) {
        const int64_t row = copies.rows[copy];
        rows.Skip(row - passed);
        passed = row;
        put(rows.row());
      }
      continue;
    }
    rows.Skip(piece.start);
    for (int64_t left = piece.stop - piece.start; left > 0;) {
      const SelectedRows::Span span = rows.Next(left, /*blocks=*/false);
      if (span.rows == 0) return Status::Invalid("Expected more selected rows, got none");
      for (int64_t row = span.start; row < span.start + span.rows; ++row) put(row);
      left -= span.rows;
    }
  }
  if (!window_->packed()) {
    CollateColumn({.item = width, .values = slots});
    return Status::OK();
  }
  for (const Part& part : window_->parts) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, unit_.slots[0]);
    for (const Segment& segment : window_->SegmentsOf(part)) {
      if (segment.row == Segment::kPadding) {
        std::memset(out, 0xFF, static_cast<size_t>(width));
      } else {
        std::memcpy(out, slots + int64_t{segment.row} * width,
                    static_cast<size_t>(width));
      }
      out += width;
    }
  }
  return Status::OK();
}

Status WindowTask::FillRealRows() {
  const bool mixed = std::ranges::any_of(window_->pieces, &Piece::substitute);
  if (mixed) {
    uint8_t* slots = scratch_->Get(Scratch::kRows, window_->slots());
    if (slots == nullptr)
      return Status::OutOfMemory("Expected memory for marks of real rows, got none");
    const bool dealt = window_->dealt();
    int64_t at = 0;
    for (const Piece& piece : window_->pieces) {
      for (const int64_t end = at + piece.stop - piece.start; at < end; ++at) {
        const int64_t slot =
            dealt ? int64_t{window_->shuffle.slots[static_cast<size_t>(at)]} : at;
        slots[slot] = piece.substitute ? 0 : 1;
      }
    }
    CollateColumn({.item = 1, .values = slots});
  }
  for (const Part& part : window_->parts) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, unit_.slots[0]);
    if (!mixed) std::memset(out, 1, static_cast<size_t>(part.real_rows));
    std::memset(out + part.real_rows, 0, static_cast<size_t>(part.rows - part.real_rows));
  }
  return Status::OK();
}

}  // namespace fastload
