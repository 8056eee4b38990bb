// Rows of lists, as they are decoded and before they are collated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fastload/base/byte_arena.h"
#include "fastload/decode/lists/element_runs.h"
#include "fastload/decode/values/byte_view.h"

namespace fastload {

// Rows of a column of lists, one after the other.
struct NestedRows {
  // Of each level of lists, the outermost (one list a row) first: where each list begins
  // among what it holds, lists of the next level or, in the innermost, items; then where
  // the last one ends. Each begins with 0.
  std::vector<std::vector<int64_t>> offsets;
  // Elements of fixed width: of each item one, or spec.list_size.
  ElementRuns values;
  // Rows are taken in the order in which they are read: elements may then wait as codes
  // into dictionaries. In another order, each row would need another dictionary.
  bool in_order = false;
  // Rows are taken at once, out of a cache: elements wait as they are.
  bool as_they_are = false;
  // Or, of a byte column, the views of the elements and what they show.
  std::vector<ByteView> views;
  ByteArena bytes;
  // Of each row, if asked for: 1 = its outermost list is not null.
  std::vector<uint8_t> valid;

  // Items of a row, of which `most` count.
  int64_t Length(int64_t row, int64_t most) const {
    const int64_t* starts = offsets[0].data() + row;
    return std::min(starts[1] - starts[0], most);
  }
  // Forgets the rows; memory stays.
  void Clear() {
    offsets.clear();
    values.Clear();
    views.clear();
    bytes.Clear();
    valid.clear();
  }
};

}  // namespace fastload
