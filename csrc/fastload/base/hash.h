// XXH64, as https://github.com/Cyan4973/xxHash defines it; the same in every release.
#pragma once

#include <cstddef>
#include <cstdint>

// All of it static and inlined: nothing of libarrow's own copy is linked to.
#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash.h"

namespace fastload {

inline uint64_t Hash64(const void* data, size_t size, uint64_t seed) {
  return XXH64(data, size, seed);
}

// Of an integer: of its 8 bytes, least significant first.
inline uint64_t Hash64(int64_t value, uint64_t seed) {
  return XXH64(&value, sizeof(value), seed);
}

}  // namespace fastload
