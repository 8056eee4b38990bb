// Units of work: what one task decodes of a window.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/columns.h"
#include "fastload/layout.h"

namespace fastload {

// The columns that one task decodes, and where their values go.
struct Unit {
  enum class Kind : uint8_t {
    kFixed,    // fixed-width columns
    kBytes,    // one byte column
    kFile,     // index of each row's file
    kRow,      // number of each row in its file
    kRealRow,  // whether each row is data rather than a repeat
  };
  Kind kind = Kind::kFixed;
  // kFixed: one column, or the neighbours in a stack that share a cache line.
  std::vector<int32_t> columns;
  int64_t width = 0;                      // bytes of a row: all its columns side by side
  std::vector<Layout::Slot> slots;        // each receives the whole row
  std::vector<Layout::Slot> valid_slots;  // each receives the validity of columns[0]
  std::vector<int32_t> byte_outputs;      // kBytes: its places among the byte outputs
};

// Byte columns come first: a batch gets its memory when their sizes are known.
std::vector<Unit> MakeUnits(const std::vector<ColumnSpec>& columns,
                            const std::vector<OutputSpec>& outputs, const Layout& layout);

}  // namespace fastload
