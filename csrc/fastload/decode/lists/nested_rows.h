// Rows of lists after decoding and before collation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fastload/base/byte_arena.h"
#include "fastload/decode/lists/element_runs.h"
#include "fastload/decode/lists/fill_budget.h"
#include "fastload/decode/values/byte_view.h"

namespace fastload {

// Consecutive rows of a column of lists.
struct NestedRows {
  // For each level of lists, the outermost (one list per row) first: the index at which
  // each list begins among its children, then the end of the last list. Children are the
  // lists of the next level or, in the innermost level, items. Each vector begins with 0.
  std::vector<std::vector<int64_t>> offsets;
  // Fixed-width elements: one per item, or spec.list_size per item.
  ElementRuns values;
  // True if rows are taken in the order in which they are read: elements may then wait as
  // codes into dictionaries. In another order, each row would need another dictionary.
  bool in_order = false;
  // True if rows are also taken many at a time: elements may then wait in their pages.
  // One by one, each row would need a search in its page.
  bool in_pages = false;
  // True if rows are taken at once, while they are in a CPU cache: elements then wait as
  // plain elements.
  bool as_they_are = false;
  // The elements of a byte column as views, and the viewed bytes.
  std::vector<ByteView> views;
  ByteArena bytes;
  // One byte per row, if asked for: 1 = the outermost list is not null.
  std::vector<uint8_t> valid;
  // The elements in `values` that stand for null items.
  Fills fills;

  // Returns the number of items of a row, but at most `most`.
  int64_t Length(int64_t row, int64_t most) const {
    const int64_t* starts = offsets[0].data() + row;
    return std::min(starts[1] - starts[0], most);
  }
  // Begins the offsets of `levels` levels of lists, unless they have begun.
  void Begin(size_t levels) {
    if (offsets.empty()) offsets.assign(levels, {0});
  }
  // Appends the offsets of the lists [first, end) of the outermost level of other rows,
  // whose offsets of a level from(level) returns. Moves [*first, *end) to the items of
  // these lists.
  template <typename From>
  void AppendLists(const From& from, int64_t* first, int64_t* end) {
    for (size_t level = 0; level < offsets.size(); ++level) {
      const int64_t* const starts = from(level);
      std::vector<int64_t>& to = offsets[level];
      const int64_t shift = to.back() - starts[*first];
      const size_t size = to.size();
      to.resize(size + static_cast<size_t>(*end - *first));
      std::transform(starts + *first + 1, starts + *end + 1, to.data() + size,
                     [shift](int64_t start) { return start + shift; });
      *first = starts[*first];
      *end = starts[*end];
    }
  }
  // Removes the rows, and keeps the memory.
  void Clear() {
    offsets.clear();
    values.Clear();
    views.clear();
    bytes.Clear();
    valid.clear();
    fills.Clear();
  }
};

}  // namespace fastload
