// Packing of the documents of windows into rows of equal size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fastload/base/huge_pages.h"
#include "fastload/collate/shuffle.h"
#include "fastload/plan/read_plan.h"

namespace fastload {

// An array that comes and goes with a plan, in pages that were mostly touched before.
template <typename T>
using PlanArray = std::vector<T, HugeAllocator<T>>;

// Best fit decreasing: returns the bin of each item. Items are placed from the largest to
// the smallest, equal ones in their order; each goes to the bin with the least room that
// suffices, of equal ones to the latest that came to this room, else to a new bin. Every
// size is between 1 and `capacity`. (D. S. Johnson, "Near-optimal bin packing
// algorithms", MIT, 1973.)
PlanArray<int32_t> BestFit(std::span<const uint32_t> sizes, uint32_t capacity);

// The documents of a window, in the order in which they are packed.
struct Documents {
  std::span<const uint32_t> rows;     // row of each document in the window
  std::span<const uint32_t> kept;     // by row: elements that are packed
  std::span<const uint32_t> lengths;  // by row: elements of the list
};

struct PackedRows {
  PlanArray<Segment> segments;  // of all rows, with padding
  std::vector<int64_t> edges;   // of the rows among the segments
};

// Packs documents by best fit: longer documents are cut every `length` elements first,
// empty ones are left out; rows come in the balanced order that `key` names, where the
// work of a row are the squares of its sizes, or in the order of their first documents.
PackedRows PackWindow(const Documents& documents, uint32_t length,
                      std::optional<uint64_t> key);

// Cuts the stream that the documents make where documents and rows end, and returns the
// segments of its elements [start, stop). Rows end every `length` elements of a longer
// stream, of which the first element of the documents is number `first`.
PlanArray<Segment> SplitWindow(const Documents& documents, uint32_t length, int64_t first,
                               int64_t start, int64_t stop);

// The documents of successive windows.
struct DocumentWindows {
  std::span<const uint32_t> kept;     // by row of all windows: elements that are packed
  std::span<const uint32_t> lengths;  // by row of all windows: elements of the list
  std::span<const int64_t> edges;     // of the windows among the rows, ascending from 0
  // The rows of a window, in its order, of which those before `first` and from `stop` on
  // are left out, counted from the first window.
  int64_t first;
  int64_t stop;
  std::span<const uint64_t> keys;       // by window: of the order of its rows; {}: none
  std::span<const uint64_t> unit_keys;  // by window: of the order of its units; {}: none

  std::optional<uint64_t> UnitKey(size_t window) const {
    return unit_keys.empty() ? std::nullopt : std::optional(unit_keys[window]);
  }
};

// Returns the documents of a window that are not left out, which are rows of `order`: the
// order of all rows of the window.
Documents DocumentsOf(const DocumentWindows& windows, size_t window, Shuffle* order);

struct PackedWindows {
  PackedRows rows;                   // of all windows
  std::vector<int64_t> window_rows;  // edges of the windows among the rows
};

// Packs each window by itself.
PackedWindows PackWindows(const DocumentWindows& windows, uint32_t length);

}  // namespace fastload
