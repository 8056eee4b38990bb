// Rows of several columns, decoded column by column and stored row by row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fastload/base/prefetch.h"

namespace fastload {

// Some rows of a stack's columns, which stay in the L2 cache until the rows are stored.
// The memory is borrowed.
class Tile {
 public:
  // Elements have `item` bytes (1, 2, 4 or 8).
  Tile(uint8_t* memory, int64_t item, size_t columns)
      : memory_(memory), item_(item), columns_(columns) {}
  // Returns how many rows Bytes(item, columns) bytes hold.
  static int64_t Rows(int64_t item, size_t columns) {
    const int64_t rows = kBytes / (item * static_cast<int64_t>(columns));
    return std::clamp(rows / kLeastRows * kLeastRows, kLeastRows, kMostRows);
  }
  static int64_t Bytes(int64_t item, size_t columns) {
    return Pitch(item, columns) * static_cast<int64_t>(columns);
  }

  // Returns the start of the column's elements, which have no gaps.
  uint8_t* Column(size_t column) const {
    return memory_ + Pitch(item_, columns_) * static_cast<int64_t>(column);
  }
  // Copies rows [first, first + rows), with elements side by side, to out, out + stride,
  // ...
  void Store(int64_t first, int64_t rows, uint8_t* out, int64_t stride) const;
  // Does the same as Store, past the caches: call StreamFence before another thread reads
  // the copies.
  void Stream(int64_t first, int64_t rows, uint8_t* out, int64_t stride) const;

 private:
  // The dictionaries of the columns take turns in the cache, so a tile has many rows.
  static constexpr int64_t kBytes = 128 << 10;
  static constexpr int64_t kLeastRows = 128;
  static constexpr int64_t kMostRows = 1024;

  // Calls fn with the rows of the tile from `first` on, and where they are copied to.
  template <typename Fn>
  void WithRows(int64_t first, uint8_t* out, int64_t stride, const Fn& fn) const;

  // Returns the bytes from one column to the next. A power of two would map all columns
  // to a few sets of the cache.
  static int64_t Pitch(int64_t item, size_t columns) {
    return Rows(item, columns) * item + kCacheLine;
  }

  uint8_t* memory_;
  int64_t item_;
  size_t columns_;
};

}  // namespace fastload
