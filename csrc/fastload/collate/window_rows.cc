// Rows of a window that are decoded whole and copied one by one: lists of a fixed size in
// any order, and shuffled rows of wide stacks.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "fastload/collate/row_addresses.h"
#include "fastload/collate/window.h"

namespace fastload {
namespace {

// Bytes of rows that are put together before they are copied; the rows stay in the L1
// cache.
constexpr int64_t kBlockBytes = 16 << 10;
constexpr int64_t kMostBlockRows = 1024;

int64_t BlockRows(int64_t row_bytes) {
  return std::clamp<int64_t>(kBlockBytes / row_bytes, 1, kMostBlockRows);
}

Status NoMemory(int64_t row_bytes) {
  return Status::OutOfMemory("Expected memory for rows of ", row_bytes,
                             " bytes, got none");
}

}  // namespace

Status WindowTask::FillLists() {
  const int64_t width = unit_.width;
  const int64_t block_rows = BlockRows(width);
  const bool with_valid = !unit_.valid_slots.empty();
  uint8_t* block = scratch_->Get(Scratch::kBlock, block_rows * (width + 1));
  if (block == nullptr) return NoMemory(width);
  uint8_t* block_valid = with_valid ? block + block_rows * width : nullptr;
  const UnitAddresses addresses(window_->parts, unit_);
  OutputRows outputs(*window_, block_rows);
  return ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    for (const int64_t end = first + rows; first < end; first += block_rows) {
      const int64_t n = std::min(block_rows, end - first);
      ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, block, width, block_valid));
      const uint32_t* to = outputs.Get(first, n);
      for (const RowAddresses& p : addresses.rows) CopyRows(block, width, to, n, p);
      for (const RowAddresses& p : addresses.valid) CopyRows(block_valid, 1, to, n, p);
    }
    return Status::OK();
  });
}

Status WindowTask::FillWideStack() {
  const int64_t width = unit_.width;
  const int64_t block_rows = BlockRows(width);
  uint8_t* block = scratch_->Get(Scratch::kBlock, block_rows * width);
  if (block == nullptr) return NoMemory(width);
  const PartFinder finder(window_->parts);
  const RowAddresses addresses(window_->parts, unit_.slots[0], &finder);
  const uint32_t* outputs = window_->order.outputs.data();
  return ForEachTile([&](const Tile& tile, int64_t first, int64_t rows) {
    for (int64_t row = 0; row < rows; row += block_rows) {
      const int64_t n = std::min(block_rows, rows - row);
      tile.Store(row, n, block, width);
      CopyRows(block, width, outputs + first + row, n, addresses);
    }
    return Status::OK();
  });
}

void WindowTask::RepeatRows() {
  if (window_->order.repeats.empty()) return;
  // Rows of other kinds vary in size, so that their slots hold offsets, not `width` bytes
  // a row.
  assert(unit_.kind == Unit::Kind::kFixed || unit_.kind == Unit::Kind::kPadded);
  const UnitAddresses addresses(window_->parts, unit_);
  const auto repeat = [this](const RowAddresses& p, int64_t bytes) {
    for (const RowOrder::Repeat& r : window_->order.repeats) {
      std::memcpy(p[r.to], p[r.from], static_cast<size_t>(bytes));
    }
  };
  for (const RowAddresses& p : addresses.rows) repeat(p, unit_.width);
  for (const RowAddresses& p : addresses.valid) repeat(p, 1);
  for (const RowAddresses& p : addresses.lengths) repeat(p, sizeof(int64_t));
  for (size_t p = 0; p < unit_.pads.size(); ++p) {
    repeat(addresses.pads[p], unit_.pads[p].slot.stride);
  }
}

}  // namespace fastload
