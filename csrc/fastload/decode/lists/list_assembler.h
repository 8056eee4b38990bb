// Lists put together from levels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/lists/list_items.h"
#include "fastload/decode/lists/nested_levels.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Levels of lists are counted from 1, the outermost: up to spec.depth their lengths vary;
// those further in are of fixed size, an item of spec.list_size elements in all.
class ListAssembler {
 public:
  // `spec` and `items` are borrowed.
  ListAssembler(ListThresholds thresholds, const ColumnSpec* spec, ListItems* items);

  // Rows go to the end of `offsets` (see NestedRows) and of `valid`, unless it is null.
  void Begin(std::vector<std::vector<int64_t>>* offsets, std::vector<uint8_t>* valid);
  // The next levels; the first after Begin begin a row. The error of one element or list,
  // be it null or not of the dtype, has the number of its level in the span (AtValue).
  Status Add(const LevelSpan& span);
  // The rows are complete.
  Status Finish();

 private:
  // A null list in an item, whose number of elements is known when the item is complete.
  struct Gap {
    int64_t at;  // element that it comes before
    int level;
  };

  Status AddRows(const LevelSpan& span);
  Status AddStarts(const LevelSpan& span);
  Status AddBytes(const LevelSpan& span);
  // A level that begins a list, or adds to one other than the innermost.
  Status Enter(int repetition, int definition);
  Status NoElement(int level, int definition);
  Status Flush();
  Status AtElement(const Status& status) const;
  Status CheckLength(int64_t length, int64_t expected) const;
  // The fixed-size lists further in than `level` are complete.
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
  // By level, of what lists hold: all of it where lengths vary; in fixed-size lists that
  // of the list that is open, 0 if none is.
  std::vector<int64_t> counts_;
  std::vector<int64_t> sizes_;  // of fixed-size lists, by level; 0: not known yet
  int reached_ = 0;  // the level of the innermost list that the last level added to
  bool item_open_ = false;
  int64_t item_start_ = 0;  // its first element
  std::vector<Gap> gaps_;

  // Elements of the span not appended yet: 1 = not null.
  std::array<uint8_t, LevelStream::kBlockLevels> present_;
  int64_t pending_ = 0;
  int64_t flushed_ = 0;  // elements of the span that are appended
  const LevelSpan* span_ = nullptr;
  int64_t at_ = 0;  // the level of the span that Enter takes
};

}  // namespace fastload
