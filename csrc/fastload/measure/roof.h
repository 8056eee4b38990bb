// The roof of a pass: the cost of reading, decompressing and one copy of the output.
// Pages that stay in memory from one pass to the next are read there instead.
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
  double kept_s = 0;    // the part of `pages_s` spent on reading the bytes of kept pages
  double memcpy_s = 0;  // copying `output_bytes` bytes between buffers larger than caches
  int64_t pages = 0;    // pages that are read from the files
  int64_t read_bytes = 0;
  int64_t kept_bytes = 0;  // bytes of the kept pages
};

// Measures the roof of the first `first_rows` rows. `leaves[file]` holds the needed leaf
// columns. A page is read if it contains one of the rows, and a dictionary if one of its
// pages is read. `threads` threads share the work, one column chunk at a time.
//
// With a `kept_limit_bytes`, the pages of compressed chunks lie decompressed in memory
// before the first second is counted: the pages that a KeptPages of this limit keeps.
// Each of their bytes is read once, and none is decompressed.
Result<RoofTimes> MeasureRoof(const std::vector<FileSpec>& files,
                              const std::vector<std::vector<int32_t>>& leaves,
                              int64_t output_bytes, int32_t threads,
                              int64_t first_rows = std::numeric_limits<int64_t>::max(),
                              int64_t kept_limit_bytes = 0);

}  // namespace fastload
