// A column's rows in the slots of a window.
#pragma once

#include <cstdint>
#include <optional>

#include "fastload/base/gather.h"
#include "fastload/collate/window_codes.h"
#include "fastload/collate/window_runs.h"

namespace fastload {

// One column after dealing: a value or a code in each slot.
struct DealtColumn {
  int64_t item = 0;                 // bytes of a row
  const uint8_t* values = nullptr;  // by slot; null if codes has all rows
  const uint8_t* valid = nullptr;   // by slot; null if not asked for
  const uint8_t* codes = nullptr;   // by slot; used if there is a table
  std::optional<CodeTable> table;

  // Copies the run's output rows to out, out + stride, ...
  void Gather(const SlotRun& run, uint8_t* out, int64_t stride) const;
  void GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const;
};

}  // namespace fastload
