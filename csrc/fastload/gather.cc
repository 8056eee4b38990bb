#include "fastload/gather.h"

#include <cstring>

namespace fastload {
namespace {

template <typename T>
void GatherPacked(const uint8_t* rows, const uint32_t* index, int64_t count,
                  uint8_t* out) {
  const T* from = reinterpret_cast<const T*>(rows);
  T* to = reinterpret_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = from[index[i]];
}

template <int kWidth>
void GatherStrided(const uint8_t* rows, const uint32_t* index, int64_t count,
                   uint8_t* out, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * stride, rows + int64_t{index[i]} * kWidth, kWidth);
  }
}

}  // namespace

void Gather(const uint8_t* rows, int64_t width, const uint32_t* index, int64_t count,
            uint8_t* out, int64_t stride) {
  if (width == stride) {
    switch (width) {
      case 1:
        return GatherPacked<uint8_t>(rows, index, count, out);
      case 2:
        return GatherPacked<uint16_t>(rows, index, count, out);
      case 4:
        return GatherPacked<uint32_t>(rows, index, count, out);
      case 8:
        return GatherPacked<uint64_t>(rows, index, count, out);
      default:
        break;
    }
  }
  // 64: what a full slice of a stack has; the others in full cache lines of it.
  if (width == 64) return GatherStrided<64>(rows, index, count, out, stride);
  if (width == 32) return GatherStrided<32>(rows, index, count, out, stride);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * stride, rows + index[i] * width, static_cast<size_t>(width));
  }
}

}  // namespace fastload
