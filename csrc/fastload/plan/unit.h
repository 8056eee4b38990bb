// Units of work: what one task decodes of a window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"

namespace fastload {

// The columns that one task decodes, and where their values go.
struct Unit {
  enum class Kind : uint8_t {
    kNested,   // one column of lists
    kPadded,   // one column of lists, cut and padded to rows of equal size
    kBytes,    // one byte column
    kFixed,    // fixed-width columns, lists of fixed size among them
    kFile,     // index of each row's file
    kRow,      // number of each row in its file
    kRealRow,  // whether each row is data rather than a repeat
  };
  // Rows of a few whole cache lines are written faster than their lines one by one; more
  // columns would leave too few units for many threads.
  static constexpr int64_t kMostStackBytes = 256;
  // Shuffled rows of a stack of at least so many columns are written faster one by one
  // than its columns are dealt out.
  static constexpr size_t kWideStackColumns = 12;

  struct Pad {
    Layout::Slot slot;
    int64_t length = 0;   // items of a row
    std::string element;  // written where a row has fewer items
  };
  struct Length {
    Layout::Slot slot;
    int64_t most = 0;  // items of a row that count
  };

  Kind kind = Kind::kFixed;
  // kFixed: one column, or neighbours in a stack, kMostStackBytes of a row at most.
  std::vector<int32_t> columns;
  // kFixed: bytes of a row, all its columns side by side. kNested, kPadded: of an item.
  int64_t width = 0;
  // kFixed: rows go to their places one by one: lists, and what a wide stack shuffles.
  bool row_by_row = false;
  // kFixed: each receives the whole row. kBytes, kNested: the ragged outputs.
  std::vector<Layout::Slot> slots;
  std::vector<Layout::Slot> valid_slots;  // each receives the validity of columns[0]
  std::vector<Pad> pads;                  // kNested, kPadded
  std::vector<Length> lengths;            // kNested, kPadded

  // Its rows vary in size: they are staged before batches get their memory.
  bool staged() const { return kind == Kind::kBytes || kind == Kind::kNested; }
};

// Units that are staged come first.
std::vector<Unit> MakeUnits(const std::vector<ColumnSpec>& columns,
                            const std::vector<OutputSpec>& outputs, const Layout& layout);

}  // namespace fastload
