// Prefetches of cache lines.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fastload {

constexpr int64_t kCacheLine = 64;

// Prefetches the line that a store to `address` will need; `address` may be outside any
// object. The processor recognises streams of stores too late by itself.
inline void PrefetchForWrite(const void* address) { __builtin_prefetch(address, 1); }

// Prefetches the first lines of memory that is read soon. The processor finds the
// remaining lines by itself.
inline void PrefetchFirst(const void* from, int64_t bytes) {
  constexpr int64_t kMostBytes = 16 * kCacheLine;
  const auto* const first = static_cast<const uint8_t*>(from);
  for (int64_t at = 0; at < std::min(bytes, kMostBytes); at += kCacheLine) {
    __builtin_prefetch(first + at);
  }
}

// The distance in bytes by which prefetches run ahead of a stream of stores.
constexpr int64_t kWriteAheadBytes = 2048;

// Sets out[i] = element(i) for i in [0, n), where `out` is not in a cache.
template <typename T, typename Element>
inline void StoreStream(T* out, int64_t n, const Element& element) {
  constexpr int64_t kPerLine = kCacheLine / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kAhead = kWriteAheadBytes / static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  for (; i + kPerLine <= n; i += kPerLine) {
    PrefetchForWrite(out + i + kAhead);
    for (int64_t j = i; j < i + kPerLine; ++j) out[j] = element(j);
  }
  for (; i < n; ++i) out[i] = element(i);
}

}  // namespace fastload
