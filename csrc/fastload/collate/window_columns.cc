// Fixed-width columns that are decoded before they are copied to their outputs: columns
// of a shuffled window, and columns with more than one output.
#include <algorithm>
#include <cstring>
#include <optional>

#include "fastload/base/gather.h"
#include "fastload/collate/window.h"
#include "fastload/collate/window_codes.h"
#include "fastload/collate/window_runs.h"
#include "fastload/plan/row_copies.h"
#include "fastload/plan/row_selection.h"

namespace fastload {
namespace {

// Copies the run's rows of `width` bytes.
void GatherRows(const uint8_t* rows, int64_t width, const RowRun& run, uint8_t* out,
                int64_t stride, NextRead next) {
  if (run.index != nullptr) {
    return Gather(rows, width, run.index, run.rows, out, stride, next);
  }
  const uint8_t* from = rows + run.row * width;
  for (int64_t i = 0; i < run.rows; ++i) {
    std::memcpy(out + i * stride, from + i * width, static_cast<size_t>(width));
  }
}

}  // namespace

// The rows of one column: a value or a code for each row of the window, or for each slot
// of its shuffle.
struct DecodedColumn {
  int64_t item = 0;           // bytes of a row
  uint8_t* values = nullptr;  // used if there is no table
  uint8_t* valid = nullptr;   // null if not asked for
  uint8_t* codes = nullptr;   // used if there is a table
  std::optional<CodeTable> table;
  bool by_slot = false;

  // Copies the run's output rows to out, out + stride, ...; the stride is `item` if there
  // is a table.
  void Gather(const RowRun& run, uint8_t* out, int64_t stride) const;
  void Gather(const SlotRun& run, uint8_t* out, int64_t stride) const;
  void GatherValid(const RowRun& run, uint8_t* out, int64_t stride) const;
  void GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const;
};

void DecodedColumn::Gather(const RowRun& run, uint8_t* out, int64_t stride) const {
  if (!table) return GatherRows(values, item, run, out, stride, NextRead::kLate);
  GatherCodes(codes, table->code_bytes(), run.index, run.rows, table->table(), item, out,
              NextRead::kLate);
}

void DecodedColumn::Gather(const SlotRun& run, uint8_t* out, int64_t stride) const {
  if (!table) {
    return fastload::Gather(values + run.bucket * item, item, run.within, run.rows, out,
                            stride, NextRead::kLate);
  }
  const int64_t width = table->code_bytes();
  GatherCodes(codes + run.bucket * width, width, run.within, run.rows, table->table(),
              item, out, NextRead::kLate);
}

void DecodedColumn::GatherValid(const RowRun& run, uint8_t* out, int64_t stride) const {
  GatherRows(valid, 1, run, out, stride, NextRead::kSoon);
}

void DecodedColumn::GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const {
  fastload::Gather(valid + run.bucket, 1, run.within, run.rows, out, stride);
}

int64_t WindowTask::Chunks() const {
  return std::count(window_->fresh.begin(), window_->fresh.end(), true) +
         (window_->fresh[0] ? 0 : 1);
}

bool WindowTask::HasCodes() const { return window_->buckets() > 1; }

bool WindowTask::GoesBySlot(int64_t row_bytes) const {
  return window_->buckets() > 1 && window_->rows * row_bytes > window_->cache_bytes;
}

// Decodes the column: as dictionary codes if all rows are codes, else as values.
Status WindowTask::DecodeColumn(const ColumnMemory& memory, DecodedColumn* column) {
  const auto& spec = source_->columns[static_cast<size_t>(unit_.columns[0])];
  const int64_t item = unit_.width;
  const bool with_valid = column->valid != nullptr;
  bool coded = HasCodes();  // true if all rows so far are codes
  // Reads rows [first, end) in blocks: read(n, to, valid) returns how many of `n` rows of
  // `width` bytes it read. Stops early after a block that was not read in full.
  const auto read_blocks = [&](int64_t* first, int64_t end, int64_t width, uint8_t* rows,
                               const auto& read) -> Status {
    for (bool full = true; full && *first < end;) {
      int64_t n = end - *first;
      if (column->by_slot) n = std::min(n, kBlockRows);
      uint8_t* to = column->by_slot ? memory.block : rows + *first * width;
      uint8_t* valid = !with_valid       ? nullptr
                       : column->by_slot ? memory.block + kBlockRows * item
                                         : column->valid + *first;
      ARROW_ASSIGN_OR_RAISE(const int64_t count, read(n, to, valid));
      if (column->by_slot) {
        const uint32_t* slots = window_->InTwoSteps().slots.data() + *first;
        Scatter(to, width, slots, count, rows);
        if (with_valid) Scatter(valid, 1, slots, count, column->valid);
      }
      *first += count;
      full = count == n;
    }
    return Status::OK();
  };
  column->by_slot = GoesBySlot(item);
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    const int64_t end = first + rows;
    int64_t base = -1;  // code of the dictionary's first entry; -1: rows are values
    if (coded) {
      ARROW_ASSIGN_OR_RAISE(const auto dictionary, cursor.fixed->Dictionary());
      const auto entries = static_cast<int64_t>(dictionary.size()) / item;
      if (entries > 0 && !column->table) {
        const int64_t code_bytes =
            CodeTable::CodeBytes(entries, Chunks(), item, window_->rows);
        if (code_bytes > 0) {
          column->table = CodeTable(memory.table, code_bytes, item, spec.fill);
          column->by_slot = GoesBySlot(code_bytes);
        }
      }
      if (entries > 0 && column->table) {
        const auto added = column->table->Add(dictionary);
        if (added) base = *added;
      }
    }
    if (base >= 0) {
      const FixedReader::Codes codes{column->table->code_bytes(),
                                     static_cast<uint32_t>(base), CodeTable::kNull};
      ARROW_RETURN_NOT_OK(read_blocks(&first, end, codes.bytes, column->codes,
                                      [&](int64_t n, uint8_t* to, uint8_t* valid) {
                                        return cursor.fixed->ReadCodes(n, codes, to,
                                                                       valid);
                                      }));
    }
    if (coded && first < end) {
      // The remaining rows are values, so the rows before become values, too.
      coded = false;
      if (column->table) TurnToValues(*column->table, first, column);
      column->table.reset();
    }
    return read_blocks(&first, end, item, column->values,
                       [&](int64_t n, uint8_t* to, uint8_t* valid) -> Result<int64_t> {
                         ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, to, item, valid));
                         return n;
                       });
  }));
  return Status::OK();
}

void WindowTask::TurnToValues(const CodeTable& table, int64_t rows,
                              DecodedColumn* column) {
  const uint32_t* slots = column->by_slot ? window_->InTwoSteps().slots.data() : nullptr;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = slots == nullptr ? row : slots[row];
    std::memcpy(column->values + at * column->item,
                table.Element(column->codes + at * table.code_bytes()),
                static_cast<size_t>(column->item));
  }
}

Status WindowTask::FillColumn() {
  const int64_t item = unit_.width;
  const bool with_valid = !unit_.valid_slots.empty();
  const int64_t slots = window_->slots();
  const int64_t value_bytes = RoundUp(slots * item, kAlignment);
  const int64_t code_bytes = HasCodes() ? CodeTable::MostCodeBytes(item) : 0;
  uint8_t* block = scratch_->Get(Scratch::kBlock, kBlockRows * (item + 1));
  uint8_t* values = scratch_->Get(Scratch::kRows, value_bytes + (with_valid ? slots : 0));
  uint8_t* codes = scratch_->Get(Scratch::kCodes, slots * code_bytes);
  uint8_t* table =
      scratch_->Get(Scratch::kTable, CodeTable::TableBytes(code_bytes, item));
  if (block == nullptr || values == nullptr || codes == nullptr || table == nullptr) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  DecodedColumn column{.item = item,
                       .values = values,
                       .valid = with_valid ? values + value_bytes : nullptr,
                       .codes = codes};
  ARROW_RETURN_NOT_OK(DecodeColumn({.block = block, .table = table}, &column));
  CollateColumn(column);
  return Status::OK();
}

void WindowTask::CollateColumn(const DecodedColumn& column) {
  const auto for_each_run = [&](const Part& part, const auto& fn) {
    if (column.by_slot) {
      ForEachSlotRun(*window_, part, fn);
    } else {
      ForEachRowRun(*window_, part, fn);
    }
  };
  for (const Part& part : Parts()) {
    for (const Layout::Slot& slot : unit_.slots) {
      uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
      for_each_run(part, [&](const auto& run) {
        column.Gather(run, out + run.first * slot.stride, slot.stride);
      });
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(part.block->data(), part.areas, slot);
      for_each_run(part, [&](const auto& run) {
        column.GatherValid(run, out + run.first * slot.stride, slot.stride);
      });
    }
  }
}

Status WindowTask::FillFixed() {
  if (unit_.columns.size() == 1) return FillColumn();
  return window_->buckets() > 1 ? FillStackByRecords() : FillStackByTiles();
}

Status WindowTask::FillStackByTiles() {
  const int64_t width = unit_.width;
  uint8_t* rows_of = scratch_->Get(Scratch::kRows, window_->rows * width);
  if (rows_of == nullptr) {
    return Status::OutOfMemory("Expected memory for a window of ", window_->rows,
                               " rows, got none");
  }
  ARROW_RETURN_NOT_OK(ForEachTile([&](const Tile& tile, int64_t first, int64_t rows) {
    tile.Store(0, rows, rows_of + first * width, width);
    return Status::OK();
  }));
  CollateColumn({.item = width, .values = rows_of});
  return Status::OK();
}

void WindowTask::FillFirst() {
  for (const Part& part : Parts()) {
    uint8_t* base = part.block->data();
    auto* out =
        reinterpret_cast<int64_t*>(Layout::Address(base, part.areas, unit_.slots[0]));
    for (const Segment& segment : window_->SegmentsOf(part)) *out++ = segment.first;
  }
}

Result<uint8_t*> WindowTask::NumbersOfRows(const std::function<Status(uint8_t*)>& make) {
  std::call_once(state_.staging, [&] {
    state_.numbers_status = [&] {
      ARROW_ASSIGN_OR_RAISE(state_.numbers,
                            window_->pool->Allocate(window_->rows * unit_.width));
      return make(state_.numbers->data());
    }();
  });
  ARROW_RETURN_NOT_OK(state_.numbers_status);
  return state_.numbers->data();
}

Status WindowTask::Provenance(uint8_t* numbers) const {
  const int64_t width = unit_.width;
  int64_t at = 0;
  for (size_t p = 0; p < window_->pieces.size(); ++p) {
    const Piece& piece = window_->pieces[p];
    const bool file = unit_.kind == Unit::Kind::kFile;
    const int64_t first = file ? 0
                               : source_->FirstRow(static_cast<int32_t>(piece.file),
                                                   static_cast<int32_t>(piece.row_group));
    SelectedRows rows(BitsOf(*source_, *window_, piece));
    const auto put = [&](int64_t row) {
      const int64_t value = file ? piece.file : first + row;
      // Little-endian: an int32 is the low bytes of the file's index.
      std::memcpy(numbers + at++ * width, &value, static_cast<size_t>(width));
    };
    const RowCopies copies = CopiesOf(*window_, p);
    if (!copies.single()) {
      int64_t passed = 0;  // selected rows that `rows` has skipped
      CopiesWalk walk(copies);
      walk.Skip(piece.start);
      for (int64_t copy = piece.start; copy < piece.stop; ++copy, walk.Skip(1)) {
        const int64_t row = walk.row();
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
  return Status::OK();
}

Status WindowTask::FillProvenance() {
  const int64_t width = unit_.width;
  ARROW_ASSIGN_OR_RAISE(uint8_t* const numbers,
                        NumbersOfRows([this](uint8_t* out) { return Provenance(out); }));
  if (!window_->packed()) {
    CollateColumn({.item = width, .values = numbers});
    return Status::OK();
  }
  for (const Part& part : Parts()) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, unit_.slots[0]);
    for (const Segment& segment : window_->SegmentsOf(part)) {
      if (segment.row == Segment::kPadding) {
        std::memset(out, 0xFF, static_cast<size_t>(width));
      } else {
        std::memcpy(out, numbers + int64_t{segment.row} * width,
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
    ARROW_ASSIGN_OR_RAISE(uint8_t* const real, NumbersOfRows([this](uint8_t* out) {
                            int64_t at = 0;
                            for (const Piece& piece : window_->pieces) {
                              const int64_t rows = piece.stop - piece.start;
                              std::memset(out + at, piece.substitute ? 0 : 1,
                                          static_cast<size_t>(rows));
                              at += rows;
                            }
                            return Status::OK();
                          }));
    CollateColumn({.item = 1, .values = real});
  }
  for (const Part& part : Parts()) {
    uint8_t* out = Layout::Address(part.block->data(), part.areas, unit_.slots[0]);
    if (!mixed) std::memset(out, 1, static_cast<size_t>(part.real_rows));
    std::memset(out + part.real_rows, 0, static_cast<size_t>(part.rows - part.real_rows));
  }
  return Status::OK();
}

}  // namespace fastload
