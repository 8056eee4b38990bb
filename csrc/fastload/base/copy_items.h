// Copies of packed items to a destination with gaps.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastload/base/stream_copy.h"
#include "fastload/base/strided.h"

namespace fastload {

// From this size on, copying past the caches pays off. Smaller targets may be a shuffle's
// scratch memory, which is read soon.
inline constexpr int64_t kStreamBytes = 16 << 10;

// Copies `rows` packed items of `item` bytes to out, out + stride, ...: past the caches
// (StreamFence) if the items are many and the target has no gaps.
inline void CopyItems(const uint8_t* from, int64_t item, int64_t rows, uint8_t* out,
                      int64_t stride) {
  if (stride == item) {
    const int64_t bytes = rows * item;
    if (bytes > kStreamBytes) return StreamCopy(out, from, bytes);
    if (bytes > 0) std::memcpy(out, from, static_cast<size_t>(bytes));
    return;
  }
  const auto copy = [&]<typename T>(T /*item*/) {
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(out + i * stride, from + i * static_cast<int64_t>(sizeof(T)),
                  sizeof(T));
    }
  };
  if (item <= 8 && (item & (item - 1)) == 0) {
    return WithItem(static_cast<int>(item), copy);
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(out + i * stride, from + i * item, static_cast<size_t>(item));
  }
}

}  // namespace fastload
