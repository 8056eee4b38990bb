// Copies and stores that bypass the caches, for memory that nobody reads soon.
#pragma once

#include <cstdint>
#include <cstring>

#include "fastload/base/prefetch.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fastload {

// A memcpy that bypasses the caches: the target's lines are not read from memory first,
// and nothing is evicted from the caches. Call StreamFence before another thread reads
// the target.
inline void StreamCopy(uint8_t* to, const uint8_t* from, int64_t bytes) {
#if defined(__SSE2__)
  constexpr int64_t kWord = sizeof(__m128i);
  const auto stream4 = [&](int64_t until) {
    for (; bytes > until; bytes -= 4, to += 4, from += 4) {
      int word;
      std::memcpy(&word, from, sizeof(word));
      _mm_stream_si32(reinterpret_cast<int*>(to), word);
    }
  };
  const auto address = reinterpret_cast<uintptr_t>(to);
  if (address % 4 == 0 && bytes % 4 == 0 && bytes >= 2 * kWord) {
    const auto head = static_cast<int64_t>(-address % kWord);
    stream4(bytes - head);
    for (; bytes >= kWord; bytes -= kWord, to += kWord, from += kWord) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
    return stream4(0);
  }
#endif
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Stores an element of 1, 2, 4 or 8 bytes past the caches; elements of 1 and 2 bytes go
// through the caches. Stores to successive addresses leave the processor as whole lines.
template <typename T>
inline void StreamStore(T value, uint8_t* to) {
#if defined(__SSE2__)
  if constexpr (sizeof(T) == 4) {
    _mm_stream_si32(reinterpret_cast<int*>(to), static_cast<int>(value));
    return;
  }
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(T) == 8) {
    using Word = long long;  // NOLINT(google-runtime-int): the intrinsic's
    _mm_stream_si64(reinterpret_cast<Word*>(to), static_cast<Word>(value));
    return;
  }
#endif
  std::memcpy(to, &value, sizeof(value));
}

#if defined(__SSE2__)
// Stores element(i), element(i + 1), ... past the caches, as many as 16 bytes hold, to 16
// aligned bytes.
template <typename T, typename Element>
inline void StreamStoreWord(T* out, int64_t i, const Element& element) {
  __m128i word;
  if constexpr (sizeof(T) == 8) {
    word = _mm_set_epi64x(static_cast<int64_t>(element(i + 1)),
                          static_cast<int64_t>(element(i)));
  } else {
    word = _mm_set_epi32(
        static_cast<int32_t>(element(i + 3)), static_cast<int32_t>(element(i + 2)),
        static_cast<int32_t>(element(i + 1)), static_cast<int32_t>(element(i)));
  }
  _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), word);
}
#endif

// Sets out[i] = element(i) for i in [0, n), past the caches if an element has 4 or 8
// bytes, as StoreStream otherwise.
template <typename T, typename Element>
inline void StoreStreamPast(T* out, int64_t n, const Element& element) {
  if constexpr (sizeof(T) < 4) return StoreStream(out, n, element);
  const auto store = [&](int64_t i) {
    StreamStore(element(i), reinterpret_cast<uint8_t*>(out + i));
  };
  int64_t i = 0;
#if defined(__SSE2__)
  if constexpr (sizeof(T) >= 4) {
    constexpr int64_t kPerWord = sizeof(__m128i) / sizeof(T);
    constexpr int64_t kPerLine = kCacheLine / static_cast<int64_t>(sizeof(T));
    for (; i < n && reinterpret_cast<uintptr_t>(out + i) % kCacheLine != 0; ++i) store(i);
    for (; i + kPerLine <= n; i += kPerLine) {
      for (int64_t j = i; j < i + kPerLine; j += kPerWord) {
        StreamStoreWord(out, j, element);
      }
    }
  }
#endif
  for (; i < n; ++i) store(i);
}

inline void StreamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace fastload
