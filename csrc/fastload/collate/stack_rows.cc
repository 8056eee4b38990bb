#include "fastload/collate/stack_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fastload/base/gather.h"
#include "fastload/base/prefetch.h"
#include "fastload/base/strided.h"
#include "fastload/collate/window.h"

namespace fastload {
namespace {

// The gap between tables. The beginning of a table is looked up most, and tables a power
// of two apart would share a few sets of a cache.
constexpr int64_t kTableGap = 65 * kCacheLine;

Status NoMemory(const Window& window) {
  return Status::OutOfMemory("Expected memory for a window of ", window.rows,
                             " rows, got none");
}

}  // namespace

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

}  // namespace fastload
