// A range of bytes in a file.
#pragma once

#include <cstdint>

namespace fastload {

struct ByteRange {
  int64_t offset = 0;
  int64_t bytes = 0;

  bool operator==(const ByteRange&) const = default;
};

}  // namespace fastload
