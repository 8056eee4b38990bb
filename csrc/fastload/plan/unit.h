// Units of work: the part of a window that one task decodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"

namespace fastload {

// The columns that one task decodes, and the slots that receive their values.
struct Unit {
  enum class Kind : uint8_t {
    kNested,   // one column of lists
    kPadded,   // one column of lists, cut and padded to rows of equal size
    kBytes,    // one byte column
    kFixed,    // fixed-width columns, including lists of a fixed size
    kFile,     // index of each row's file
    kRow,      // number of each row in its file
    kRealRow,  // whether each row is data rather than a repeat
    kFirst,    // first element of each segment
  };
  // The most bytes per row of the columns of one unit. Rows of a few whole cache lines
  // are written faster than single lines; more columns per unit would leave too few units
  // for many threads.
  static constexpr int64_t kMostStackBytes = 256;
  // From this number of columns on, writing the shuffled rows of a stack one by one is
  // faster than gathering records of their codes.
  static constexpr size_t kWideStackColumns = 12;

  struct Pad {
    Layout::Slot slot;
    std::string element;     // written where a row has fewer items
    bool mask = false;       // writes true for each item, instead of the item
    bool keep_last = false;  // as in OutputSpec
    bool pad_left = false;   // as in OutputSpec
  };
  struct Length {
    Layout::Slot slot;
    int64_t most = 0;  // the most items of a row that count
  };

  Kind kind = Kind::kFixed;
  // kFixed: one column, or neighbours in a stack with at most kMostStackBytes per row.
  std::vector<int32_t> columns;
  // kFixed: bytes of a row with all its columns side by side. kNested, kPadded: bytes of
  // an item.
  int64_t width = 0;
  // kFixed: rows are written to their positions one by one, for lists and for shuffled
  // wide stacks.
  bool row_by_row = false;
  // kFixed: each slot receives the whole row. kBytes, kNested: the slots of the ragged
  // outputs.
  std::vector<Layout::Slot> slots;
  std::vector<Layout::Slot> valid_slots;  // each receives the validity of columns[0]
  std::vector<Pad> pads;                  // kNested, kPadded
  std::vector<Length> lengths;            // kNested, kPadded
  std::string padding;  // kNested: an element, at padding of packed rows

  // Returns true if the unit's rows vary in size: such rows are staged before batches get
  // memory.
  bool staged() const { return kind == Kind::kBytes || kind == Kind::kNested; }
};

// Makes the units of a dataset; staged units come first.
std::vector<Unit> MakeUnits(const std::vector<ColumnSpec>& columns,
                            const std::vector<OutputSpec>& outputs, const Layout& layout);

}  // namespace fastload
