// Copies to memory that nobody reads soon.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fastload {

// memcpy past the caches: what is written is not read from memory first, and displaces
// nothing. Call StreamFence before another thread reads it.
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

inline void StreamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace fastload
