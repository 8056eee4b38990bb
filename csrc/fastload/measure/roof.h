// The roof of a pass: what reading, decompressing and one copy of the output cost.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/file.h"

namespace fastload {

struct RoofTimes {
  // Column chunks read, and libparquet's own PageReader run over them: its codecs, not
  // ours, so that the roof stays where it is when ours become faster.
  double pages_s = 0;
  double read_s = 0;    // the share of `pages_s` in which chunks were read
  double memcpy_s = 0;  // `output_bytes` bytes copied between buffers larger than caches
  int64_t pages = 0;
  int64_t read_bytes = 0;
};

// `leaves[file]` are the leaf columns needed, of the first `first_rows` rows: a page is
// read if it holds any of them, and a dictionary if such a page is. The work is shared by
// `threads` threads, a column chunk at a time.
Result<RoofTimes> MeasureRoof(const std::vector<FileSpec>& files,
                              const std::vector<std::vector<int32_t>>& leaves,
                              int64_t output_bytes, int32_t threads,
                              int64_t first_rows = std::numeric_limits<int64_t>::max());

}  // namespace fastload
