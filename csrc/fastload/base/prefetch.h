// Cache lines asked for ahead of their use.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fastload {

constexpr int64_t kCacheLine = 64;

// Asks for the line that a store to `address` will need, which may lie outside any
// object. Streams of stores are not recognised early enough by themselves.
inline void PrefetchForWrite(const void* address) { __builtin_prefetch(address, 1); }

// Brings the first lines of what is read soon into the cache; the processor finds the
// rest by itself.
inline void PrefetchFirst(const void* from, int64_t bytes) {
  constexpr int64_t kMostBytes = 16 * kCacheLine;
  const auto* const first = static_cast<const uint8_t*>(from);
  for (int64_t at = 0; at < std::min(bytes, kMostBytes); at += kCacheLine) {
    __builtin_prefetch(first + at);
  }
}

// How far ahead of a stream of stores its lines are asked for.
constexpr int64_t kWriteAheadBytes = 2048;

// out[i] = element(i) for i in [0, n), where out is memory that is not in a cache. Before
// each line of elements, from element i on, calls on_line(i).
template <typename T, typename Element, typename OnLine>
inline void StoreStream(T* out, int64_t n, const Element& element,
                        const OnLine& on_line) {
  constexpr int64_t kPerLine = kCacheLine / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kAhead = kWriteAheadBytes / static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  for (; i + kPerLine <= n; i += kPerLine) {
    PrefetchForWrite(out + i + kAhead);
    on_line(i);
    for (int64_t j = i; j < i + kPerLine; ++j) out[j] = element(j);
  }
  for (; i < n; ++i) out[i] = element(i);
}

}  // namespace fastload
