// The assembly of lists from levels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/lists/list_items.h"
#include "fastload/decode/lists/nested_levels.h"
#include "fastload/plan/columns.h"

namespace fastload {

// An assembler of lists. Levels of lists are counted from 1, the outermost. Lists up to
// level spec.depth vary in length. Lists further in have a fixed size; an item has
// spec.list_size elements in all.
class ListAssembler {
 public:
  // `spec` and `items` are borrowed.
  ListAssembler(ListThresholds thresholds, const ColumnSpec* spec, ListItems* items);

  // Starts appending rows to `offsets` (see NestedRows) and, unless null, to `valid`.
  void Begin(std::vector<std::vector<int64_t>>* offsets, std::vector<uint8_t>* valid);
  // Adds the next levels; the first levels after Begin must begin a row. The error of one
  // element or list (a null, or a value that does not fit the dtype) carries the number
  // of its level in the span (AtValue).
  Status Add(const LevelSpan& span);
  // Completes the rows.
  Status Finish();

  // Returns the definition level of a value.
  int present() const { return thresholds_.max_definition; }

 private:
  // Neighbouring null lists in an item. Their number of elements is known when the item
  // is complete. A run of levels of a few bytes may stand for billions of null lists, so
  // neighbours share one gap.
  struct Gap {
    int64_t at;  // index of the element behind the gap
    int level;
    int64_t lists;
  };

  Status AddRows(const LevelSpan& span);
  Status AddStarts(const LevelSpan& span);
  Status AddBytes(const LevelSpan& span);
  // Adds a span of one level of lists that vary in length, without a branch on each
  // level. Returns false, and adds nothing, if a level is wrong.
  bool AddFlat(const LevelSpan& span);
  // Handles a level that begins a list, or adds to a list other than the innermost.
  Status Enter(int repetition, int definition);
  Status NoElement(int level, int definition);
  Status Flush();
  Status AtElement(const Status& status) const;
  Status CheckLength(int64_t length, int64_t expected) const;
  // Writes fills for the null lists of the item.
  Status FillGaps();
  // Completes the fixed-size lists inside `level`.
  Status CloseLists(int level);
  Status CloseItem();
  int64_t NextElement() const { return items_->size() + pending_; }

  ListThresholds thresholds_;
  const ColumnSpec* spec_;
  ListItems* items_;
  int levels_;
  int depth_;

  std::vector<std::vector<int64_t>>* offsets_ = nullptr;
  std::vector<uint8_t>* valid_ = nullptr;
  // The number of children by level: of all lists where lengths vary; of the open list,
  // or 0, where lists have a fixed size.
  std::vector<int64_t> counts_;
  std::vector<int64_t> sizes_;  // sizes of fixed-size lists by level; 0: not known yet
  int reached_ = 0;  // level of the innermost list that the last level added to
  bool item_open_ = false;
  int64_t item_start_ = 0;  // index of the item's first element
  std::vector<Gap> gaps_;

  // Elements of the span that are not appended yet: 1 = not null.
  std::array<uint8_t, LevelStream::kBlockLevels> present_;
  int64_t pending_ = 0;
  int64_t flushed_ = 0;  // elements of the span that are appended
  const LevelSpan* span_ = nullptr;
  int64_t at_ = 0;  // index in the span of the level that Enter handles
};

}  // namespace fastload
