// Stacks of a few columns in a shuffled window: one slice of neighbouring columns after
// another.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fastload/base/gather.h"
#include "fastload/base/memory.h"
#include "fastload/base/prefetch.h"
#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/base/stream_copy.h"
#include "fastload/base/strided.h"
#include "fastload/collate/window.h"
#include "fastload/collate/window_codes.h"
#include "fastload/collate/window_runs.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/plan/columns.h"

namespace fastload {
namespace {

// The output rows put together before they are stored; the rows stay in the L1 cache.
constexpr int64_t kGatherRows = 64;

// The gap between tables. The beginning of a table is looked up most, and tables a power
// of two apart would share a few sets of a cache.
constexpr int64_t kTableGap = 65 * kCacheLine;

Status NoMemory(const Window& window) {
  return Status::OutOfMemory("Expected memory for a window of ", window.rows,
                             " rows, got none");
}

}  // namespace

// Neighbouring columns of a stack after decoding. The dictionary codes of a row lie side
// by side in one record, so that one cache line has a row of all columns. Columns of
// plain values, and columns whose dictionaries overflow the codes, are stored separately
// in `values`. Borrows the window and the scratch memory; all pointers are into scratch
// memory.
class StackRows {
 public:
  // The rows read at once; the records of a block stay in the L1 cache.
  static constexpr int64_t kBlockRows = 256;
  // The most bytes of a row, over records and values.
  static constexpr int64_t kMostRowBytes = 64;

  struct Column {
    const ColumnSpec* spec;
    int64_t code_bytes;  // 0: plain values
  };
  // Allocates the memory of columns whose elements have `item` bytes.
  static Result<StackRows> Make(const Window& window, int64_t item,
                                std::span<const Column> columns, Scratch* scratch);

  // Returns the bytes of the elements of a row, side by side.
  int64_t row_bytes() const { return item_ * static_cast<int64_t>(lanes_.size()); }

  // Announces that the column's next rows come from `reader`.
  Status Begin(size_t column, FixedReader* reader);
  // Reads the column's window rows [first, first + rows), at most kBlockRows.
  Status Read(size_t column, FixedReader* reader, int64_t first, int64_t rows);

  // Copies `rows` output rows of the run, from row number `from` on, to `out`, packed.
  void Gather(const RowRun& run, int64_t from, int64_t rows, uint8_t* out) const;

 private:
  struct Lane {
    int64_t at = 0;    // offset of the column's code in a record
    int64_t base = 0;  // code of the dictionary's first entry; -1: rows are values
    std::optional<CodeTable> table;  // column of codes
    uint8_t* values = nullptr;       // by row; column of values
    std::shared_ptr<Block> memory;   // owns `values` of a column that had codes before
  };

  explicit StackRows(const Window& window, int64_t item)
      : window_(&window), item_(item) {}
  // Converts the first `rows` rows of a column from codes to values.
  Status TurnToValues(const CodeTable& table, int64_t rows, Lane* lane);

  const Window* window_;
  int64_t item_;
  int64_t record_bytes_ = 0;    // 0: no column has codes
  std::vector<Lane> lanes_;     // one lane for each column
  uint8_t* records_ = nullptr;  // by row
  uint8_t* codes_ = nullptr;    // of one column of a block
};

Result<StackRows> StackRows::Make(const Window& window, int64_t item,
                                  std::span<const Column> columns, Scratch* scratch) {
  StackRows rows(window, item);
  const int64_t value_bytes = RoundUp(window.rows * item, kAlignment);
  int64_t code_bytes = 0;
  int64_t table_bytes = 0;
  int64_t values_bytes = 0;
  for (const Column& column : columns) {
    code_bytes += column.code_bytes;
    table_bytes += CodeTable::TableBytes(column.code_bytes, item) + kTableGap;
    values_bytes += column.code_bytes == 0 ? value_bytes : 0;
  }
  // A cache line holds a whole number of records.
  rows.record_bytes_ =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(code_bytes)));
  if (code_bytes == 0) rows.record_bytes_ = 0;
  rows.records_ = scratch->Get(Scratch::kCodes, window.rows * rows.record_bytes_);
  uint8_t* table = scratch->Get(Scratch::kTable, table_bytes);
  uint8_t* values = scratch->Get(Scratch::kRows, values_bytes);
  rows.codes_ = scratch->Get(Scratch::kBlock, kBlockRows * item);
  if (rows.records_ == nullptr || table == nullptr || values == nullptr ||
      rows.codes_ == nullptr) {
    return NoMemory(window);
  }
  int64_t at = 0;
  for (const Column& column : columns) {
    Lane lane{.at = at};
    if (column.code_bytes > 0) {
      lane.table.emplace(table, column.code_bytes, item, column.spec->fill);
      table += CodeTable::TableBytes(column.code_bytes, item) + kTableGap;
      at += column.code_bytes;
    } else {
      lane.values = values;
      values += value_bytes;
    }
    rows.lanes_.push_back(std::move(lane));
  }
  return rows;
}

Status StackRows::Begin(size_t column, FixedReader* reader) {
  Lane& lane = lanes_[column];
  lane.base = -1;
  if (!lane.table) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto dictionary, reader->Dictionary());
  if (dictionary.empty()) return Status::OK();
  const auto added = lane.table->Add(dictionary);
  if (added) lane.base = *added;
  return Status::OK();
}

Status StackRows::Read(size_t column, FixedReader* reader, int64_t first, int64_t rows) {
  Lane& lane = lanes_[column];
  int64_t read = 0;
  if (lane.table && lane.base >= 0) {
    const FixedReader::Codes codes{lane.table->code_bytes(),
                                   static_cast<uint32_t>(lane.base), CodeTable::kNull};
    ARROW_ASSIGN_OR_RAISE(read, reader->ReadCodes(rows, codes, codes_, nullptr));
    WithItem(static_cast<int>(codes.bytes), [&]<typename T>(T) {
      StoreStrided(reinterpret_cast<const T*>(codes_), read,
                   {records_ + first * record_bytes_ + lane.at, record_bytes_});
    });
    if (read == rows) return Status::OK();
  }
  if (lane.table) {
    ARROW_RETURN_NOT_OK(TurnToValues(*lane.table, first + read, &lane));
    lane.table.reset();
    lane.base = -1;
  }
  return reader->Read(rows - read, lane.values + (first + read) * item_, item_, nullptr);
}

Status StackRows::TurnToValues(const CodeTable& table, int64_t rows, Lane* lane) {
  ARROW_ASSIGN_OR_RAISE(lane->memory, window_->pool->Allocate(window_->rows * item_));
  lane->values = lane->memory->data();
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* code = records_ + row * record_bytes_ + lane->at;
    std::memcpy(lane->values + row * item_, table.Element(code),
                static_cast<size_t>(item_));
  }
  return Status::OK();
}

void StackRows::Gather(const RowRun& run, int64_t from, int64_t rows,
                       uint8_t* out) const {
  const uint32_t* index = run.index + from;
  if (record_bytes_ > 0) {
    // Prefetch the rows of the next call.
    const int64_t end = std::min(2 * rows, run.rows - from);
    for (int64_t i = rows; i < end; ++i) {
      __builtin_prefetch(records_ + index[i] * record_bytes_);
    }
  }
  const int64_t stride = row_bytes();
  for (const Lane& lane : lanes_) {
    if (lane.table) {
      GatherRecordCodes(records_ + lane.at, record_bytes_, lane.table->code_bytes(),
                        index, rows, lane.table->table(), item_, out, stride);
    } else {
      fastload::Gather(lane.values, item_, index, rows, out, stride);
    }
    out += item_;
  }
}

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
