// XXH64, as https://github.com/Cyan4973/xxHash defines the hash; every release of xxHash
// gives the same hashes.
#pragma once

#include <cstddef>
#include <cstdint>

// XXH_INLINE_ALL makes all functions static, so that the linker takes nothing from
// libarrow's own copy.
#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash.h"

namespace fastload {

inline uint64_t Hash64(const void* data, size_t size, uint64_t seed) {
  return XXH64(data, size, seed);
}

// Hashes bytes that come in parts, as Hash64 does with seed 0.
class Hash64Stream {
 public:
  Hash64Stream() { XXH64_reset(&state_, 0); }
  void Update(const void* data, size_t size) { XXH64_update(&state_, data, size); }
  uint64_t Digest() const { return XXH64_digest(&state_); }

 private:
  XXH64_state_t state_;
};

// Hashes an integer as its 8 bytes, least significant byte first.
inline uint64_t Hash64(int64_t value, uint64_t seed) {
  return XXH64(&value, sizeof(value), seed);
}

}  // namespace fastload
