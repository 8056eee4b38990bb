// Rows of lists between their staging and the batches of a window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fastload/base/block_memory.h"
#include "fastload/base/memory.h"
#include "fastload/decode/lists/nested_rows.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/unit.h"

namespace fastload {

// Rows of lists that wait until the sizes of their batches are known. Each share of the
// window's pieces is decoded by a task of its own, and has memory of its own.
class StagedLists {
 public:
  struct Share {
    Share(BlockPool* pool, FillBudget* fills)
        : memory(pool),
          rows{.values = ElementRuns(&memory),
               .bytes = ByteArena(pool),
               .fills = Fills(fills)} {}

    BlockMemory memory;
    NestedRows rows;
  };
  // A row of the window, as a row of one share.
  struct Row {
    const NestedRows* rows;
    int64_t row;
  };

  // `first_rows` holds, for each share, its first row in the window.
  StagedLists(BlockPool* pool, FillBudget* fills, std::vector<int64_t> first_rows);

  NestedRows* share(size_t i) { return &shares_[i]->rows; }
  // Returns the number of levels of offsets, once shares have rows.
  size_t levels() const { return shares_[0]->rows.offsets.size(); }

  Row Find(int64_t row) const {
    if (shares_.size() == 1) return {&shares_[0]->rows, row};
    return FindShare(row);
  }

  // Calls fn(rows, first, count) for the rows [first, first + count), share by share.
  template <typename Fn>
  void ForEachShare(int64_t first, int64_t count, const Fn& fn) const {
    while (count > 0) {
      const Row at = Find(first);
      const auto held = static_cast<int64_t>(at.rows->offsets[0].size()) - 1;
      const int64_t n = std::min(count, held - at.row);
      fn(*at.rows, at.row, n);
      first += n;
      count -= n;
    }
  }

 private:
  Row FindShare(int64_t row) const;

  std::vector<std::unique_ptr<Share>> shares_;
  std::vector<int64_t> first_rows_;
};

// The staged rows that a part takes.
struct TakenRows {
  int64_t count = 0;
  int64_t first = 0;               // in order: rows first, first + 1, ...
  const uint32_t* rows = nullptr;  // shuffled: the numbers of the rows
};

// Turns the views of byte elements into one more level of offsets, in bytes.
void AddByteLevel(NestedRows* rows);

// Computes the sizes that Layout::Place takes for a ragged output of these rows: for each
// level the number of lists, or at last of bytes, inside. An item has `item` bytes, or is
// one byte of a byte element.
void CountSizes(const StagedLists& from, const TakenRows& taken, int64_t item,
                std::span<int64_t> sizes);

// Writes a ragged output; `numbers` are the numbers of the output's slot in the areas of
// `base`.
void WriteRagged(const StagedLists& from, const TakenRows& taken, int64_t item,
                 uint8_t* base, const int64_t* numbers);

// A writer of lists that are cut, or padded, to rows of one size.
class PaddedRows {
 public:
  // `item`: bytes of an item.
  PaddedRows(const Unit::Pad& pad, int64_t item);

  // Writes one row: the items that fit, and padding before or after them.
  void Write(const NestedRows& from, int64_t row, uint8_t* out) const;
  // Writes all taken rows, one after the other.
  void WriteAll(const StagedLists& from, const TakenRows& taken, uint8_t* out) const;

 private:
  int64_t item_;
  bool mask_;
  bool keep_last_;
  bool pad_left_;
  std::string empty_;  // a row without items
};

// Writes the number of items of each row, but at most `most`.
void WriteLengths(const StagedLists& from, const TakenRows& taken, int64_t most,
                  int64_t* out);

void WriteValid(const StagedLists& from, const TakenRows& taken, uint8_t* out);

}  // namespace fastload
