// The roof of a pass: the cost of reading, decompressing and one copy of the output.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/file.h"

namespace fastload {

struct RoofTimes {
  // Seconds for reading column chunks and running libparquet's PageReader over the
  // chunks. The PageReader uses libparquet's codecs instead of fastload's, so that the
  // roof stays the same when fastload's codecs become faster.
  double pages_s = 0;
  double read_s = 0;    // the part of `pages_s` spent on reading chunks
  double memcpy_s = 0;  // copying `output_bytes` bytes between buffers larger than caches
  int64_t pages = 0;
  int64_t read_bytes = 0;
};

// Measures the roof of the first `first_rows` rows. `leaves[file]` holds the needed leaf
// columns. A page is read if it contains one of the rows, and a dictionary if one of its
// pages is read. `threads` threads share the work, one column chunk at a time.
Result<RoofTimes> MeasureRoof(const std::vector<FileSpec>& files,
                              const std::vector<std::vector<int32_t>>& leaves,
                              int64_t output_bytes, int32_t threads,
                              int64_t first_rows = std::numeric_limits<int64_t>::max());

}  // namespace fastload
