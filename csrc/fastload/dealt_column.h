// The rows of a column, or of a unit, in the slots of a window.
#pragma once

#include <cstdint>
#include <optional>

#include "fastload/gather.h"
#include "fastload/window_codes.h"
#include "fastload/window_runs.h"

namespace fastload {

struct DealtColumn {
  int64_t item = 0;                 // bytes of a row
  const uint8_t* values = nullptr;  // by slot; unless `codes` has them all
  const uint8_t* valid = nullptr;   // by slot; null if not asked for
  std::optional<CodeTable> codes;

  // Copies `rows` output rows of the run, from the one numbered `from` on, to out,
  // out + stride, ...
  void Gather(const SlotRun& run, int64_t from, int64_t rows, uint8_t* out,
              int64_t stride, NextRead next) const;
  void GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const;
};

}  // namespace fastload
