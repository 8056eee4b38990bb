// A view of a value of variable length, in borrowed memory.
#pragma once

#include <cstdint>

namespace fastload {

struct ByteView {
  const uint8_t* data = nullptr;
  int64_t size = 0;
};

}  // namespace fastload
