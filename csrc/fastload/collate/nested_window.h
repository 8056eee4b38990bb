// Rows of lists on their way from staging to the batches of a window.
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

namespace fastload {

// Rows that wait until the sizes of their batches are known, in memory like theirs: some
// pieces of the window after others, each decoded by a task of its own.
class StagedLists {
 public:
  struct Share {
    explicit Share(BlockPool* pool)
        : memory(pool), rows{.values = ElementRuns(&memory), .bytes = ByteArena(pool)} {}

    BlockMemory memory;
    NestedRows rows;
  };
  // A row, of the rows of one share.
  struct Place {
    const NestedRows* rows;
    int64_t row;
  };

  // `first_rows`: of each share, the first of its rows among those of the window.
  StagedLists(BlockPool* pool, std::vector<int64_t> first_rows);

  NestedRows* share(size_t i) { return &shares_[i]->rows; }
  // Levels of offsets of every share, once there are any.
  size_t levels() const { return shares_[0]->rows.offsets.size(); }

  Place Find(int64_t row) const {
    if (shares_.size() == 1) return {&shares_[0]->rows, row};
    size_t share = 0;
    for (size_t i = 1; i < first_rows_.size(); ++i) share += row >= first_rows_[i];
    return {&shares_[share]->rows, row - first_rows_[share]};
  }

  // Calls fn(rows, first, count) for the rows [first, first + count), share by share.
  template <typename Fn>
  void ForEachShare(int64_t first, int64_t count, const Fn& fn) const {
    while (count > 0) {
      const Place place = Find(first);
      const auto held = static_cast<int64_t>(place.rows->offsets[0].size()) - 1;
      const int64_t n = std::min(count, held - place.row);
      fn(*place.rows, place.row, n);
      first += n;
      count -= n;
    }
  }

 private:
  std::vector<std::unique_ptr<Share>> shares_;
  std::vector<int64_t> first_rows_;
};

// The staged rows that a part takes.
struct TakenRows {
  int64_t count = 0;
  int64_t first = 0;               // in order: first, first + 1, ...
  const uint32_t* rows = nullptr;  // shuffled: these
};

// Turns the views of byte elements into one more level of offsets, in bytes.
void AddByteLevel(NestedRows* rows);

// Writes what Layout::Place asks of a ragged output of these rows: for each level the
// lists, or in the end the bytes, that it holds. An item has `item` bytes, or is one
// byte of a byte element.
void CountSizes(const StagedLists& from, const TakenRows& taken, int64_t item,
                std::span<int64_t> sizes);

// Writes a ragged output; `numbers` are those of its slot in the areas of `base`.
void WriteRagged(const StagedLists& from, const TakenRows& taken, int64_t item,
                 uint8_t* base, const int64_t* numbers);

// Writes a row of `padding.size()` bytes: the items that fit, then as much of the end of
// `padding` as is left.
void PadRow(const NestedRows& from, int64_t row, int64_t item, const std::string& padding,
            uint8_t* out);

// The same for all rows taken.
void WritePadded(const StagedLists& from, const TakenRows& taken, int64_t item,
                 const std::string& padding, uint8_t* out);

// Writes the items of each row, `most` at most.
void WriteLengths(const StagedLists& from, const TakenRows& taken, int64_t most,
                  int64_t* out);

void WriteValid(const StagedLists& from, const TakenRows& taken, uint8_t* out);

}  // namespace fastload
