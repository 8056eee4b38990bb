// Rows of lists on their way from staging to the batches of a window.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fastload/block_memory.h"
#include "fastload/layout.h"
#include "fastload/memory.h"
#include "fastload/nested_reader.h"

namespace fastload {

// Rows that wait until the sizes of their batches are known, in memory like theirs.
struct StagedLists {
  explicit StagedLists(BlockPool* pool)
      : memory(pool), rows{.values = arrow::BufferBuilder(&memory)} {}

  BlockMemory memory;
  NestedRows rows;
};

// The staged rows that a part takes.
struct TakenRows {
  int64_t count = 0;
  int64_t first = 0;               // in order: first, first + 1, ...
  const uint32_t* rows = nullptr;  // shuffled: these

  int64_t operator[](int64_t i) const { return rows == nullptr ? first + i : rows[i]; }
};

// Turns the views of byte elements into one more level of offsets, in bytes.
void AddByteLevel(NestedRows* rows);

// Writes what Layout::Place asks of a ragged output of these rows: for each level the
// lists, or in the end the bytes, that it holds. An item has `item` bytes, or is one
// byte of a byte element.
void CountSizes(const NestedRows& from, const TakenRows& taken, int64_t item,
                std::span<int64_t> sizes);

// Writes a ragged output; `numbers` are those of its slot in the areas of `base`.
void WriteRagged(const NestedRows& from, const TakenRows& taken, int64_t item,
                 uint8_t* base, const int64_t* numbers);

// Writes rows of `padding.size()` bytes: the items that fit, then as much of the end of
// `padding` as is left.
void WritePadded(const NestedRows& from, const TakenRows& taken, int64_t item,
                 const std::string& padding, uint8_t* out);

// Writes the items of each row, `most` at most.
void WriteLengths(const NestedRows& from, const TakenRows& taken, int64_t most,
                  int64_t* out);

void WriteValid(const NestedRows& from, const TakenRows& taken, uint8_t* out);

}  // namespace fastload
