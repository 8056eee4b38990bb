// A fixed-width column of a window after decoding.
#pragma once

#include <cstdint>
#include <optional>

#include "fastload/collate/window_codes.h"
#include "fastload/collate/window_runs.h"

namespace fastload {

// The rows of one column: a value or a code for each row of the window, or for each slot
// of its shuffle.
struct DecodedColumn {
  int64_t item = 0;           // bytes of a row
  uint8_t* values = nullptr;  // used if there is no table
  uint8_t* valid = nullptr;   // null if not asked for
  uint8_t* codes = nullptr;   // used if there is a table
  std::optional<CodeTable> table;
  bool by_slot = false;

  // Copies the run's output rows to out, out + stride, ...; the stride is `item` if there
  // is a table.
  void Gather(const RowRun& run, uint8_t* out, int64_t stride) const;
  void Gather(const SlotRun& run, uint8_t* out, int64_t stride) const;
  void GatherValid(const RowRun& run, uint8_t* out, int64_t stride) const;
  void GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const;
};

}  // namespace fastload
