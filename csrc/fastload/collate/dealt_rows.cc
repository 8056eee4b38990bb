#include "fastload/collate/dealt_rows.h"

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

Result<DealtRows> DealtRows::Make(const Window& window, int64_t item,
                                  std::span<const Column> columns, Scratch* scratch) {
  DealtRows rows(window, item);
  const int64_t value_bytes = RoundUp(window.slots() * item, kAlignment);
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
  rows.records_ = scratch->Get(Scratch::kCodes, window.slots() * rows.record_bytes_);
  uint8_t* table = scratch->Get(Scratch::kTable, table_bytes);
  uint8_t* values = scratch->Get(Scratch::kRows, values_bytes);
  rows.block_ = scratch->Get(Scratch::kBlock, kBlockRows * (rows.record_bytes_ + item));
  if (rows.records_ == nullptr || table == nullptr || values == nullptr ||
      rows.block_ == nullptr) {
    return NoMemory(window);
  }
  rows.items_ = rows.block_ + kBlockRows * rows.record_bytes_;
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

const uint32_t* DealtRows::SlotsFrom(int64_t row) const {
  return window_->shuffle.slots.data() + row;
}

Status DealtRows::Begin(size_t column, FixedReader* reader) {
  Lane& lane = lanes_[column];
  lane.base = -1;
  if (!lane.table) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto dictionary, reader->Dictionary());
  if (dictionary.empty()) return Status::OK();
  const auto added = lane.table->Add(dictionary);
  if (added) lane.base = *added;
  return Status::OK();
}

Status DealtRows::Read(size_t column, FixedReader* reader, int64_t first, int64_t rows) {
  Lane& lane = lanes_[column];
  int64_t read = 0;
  if (lane.table && lane.base >= 0) {
    const FixedReader::Codes codes{lane.table->code_bytes(),
                                   static_cast<uint32_t>(lane.base), CodeTable::kNull};
    ARROW_ASSIGN_OR_RAISE(read, reader->ReadCodes(rows, codes, items_, nullptr));
    WithItem(static_cast<int>(codes.bytes), [&]<typename T>(T) {
      StoreStrided(reinterpret_cast<const T*>(items_), read,
                   {block_ + lane.at, record_bytes_});
    });
    if (read == rows) return Status::OK();
  }
  if (lane.table) ARROW_RETURN_NOT_OK(TurnToValues(&lane, first, read));
  ARROW_RETURN_NOT_OK(reader->Read(rows - read, items_, item_, nullptr));
  Scatter(items_, item_, SlotsFrom(first + read), rows - read, lane.values);
  return Status::OK();
}

Status DealtRows::TurnToValues(Lane* lane, int64_t first, int64_t read) {
  ARROW_ASSIGN_OR_RAISE(lane->memory, window_->pool->Allocate(window_->slots() * item_));
  lane->values = lane->memory->data();
  const auto look_up = [&](uint32_t slot, const uint8_t* record) {
    std::memcpy(lane->values + slot * item_, lane->table->Element(record + lane->at),
                static_cast<size_t>(item_));
  };
  const uint32_t* slots = SlotsFrom(0);
  for (int64_t row = 0; row < first; ++row) {
    look_up(slots[row], records_ + slots[row] * record_bytes_);
  }
  for (int64_t i = 0; i < read; ++i) {
    look_up(slots[first + i], block_ + i * record_bytes_);
  }
  lane->table.reset();
  lane->base = -1;
  return Status::OK();
}

void DealtRows::Deal(int64_t first, int64_t rows) {
  if (record_bytes_ == 0) return;
  Scatter(block_, record_bytes_, SlotsFrom(first), rows, records_);
}

void DealtRows::Gather(const SlotRun& run, int64_t from, int64_t rows,
                       uint8_t* out) const {
  const uint16_t* index = run.within + from;
  const uint8_t* records = records_ + run.bucket * record_bytes_;
  if (record_bytes_ > 0) {
    // Prefetch the rows of the next call.
    const int64_t end = std::min(2 * rows, run.rows - from);
    for (int64_t i = rows; i < end; ++i) {
      __builtin_prefetch(records + index[i] * record_bytes_);
    }
  }
  const int64_t stride = row_bytes();
  for (const Lane& lane : lanes_) {
    if (lane.table) {
      GatherRecordCodes(records + lane.at, record_bytes_, lane.table->code_bytes(), index,
                        rows, lane.table->table(), item_, out, stride);
    } else {
      fastload::Gather(lane.values + run.bucket * item_, item_, index, rows, out, stride,
                       nullptr);
    }
    out += item_;
  }
}

}  // namespace fastload
