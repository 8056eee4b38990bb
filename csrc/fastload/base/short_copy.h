// Copies of a few bytes without a function call.
#pragma once

#include <cstdint>
#include <cstring>

namespace fastload {

// A memcpy for copies that mostly have at most 32 bytes. Neither writes nor reads beyond
// `bytes`.
inline void ShortCopy(uint8_t* to, const uint8_t* from, int64_t bytes) {
  // Copies the first word and the last word of a power of two; the two words may overlap.
  const auto both_ends = [&]<typename Word>(Word first, Word last) {
    std::memcpy(&first, from, sizeof(Word));
    std::memcpy(&last, from + bytes - sizeof(Word), sizeof(Word));
    std::memcpy(to, &first, sizeof(Word));
    std::memcpy(to + bytes - sizeof(Word), &last, sizeof(Word));
  };
  struct Word16 {
    uint64_t words[2];
  };
  if (bytes > 32) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else if (bytes >= 16) {
    both_ends(Word16{}, Word16{});
  } else if (bytes >= 8) {
    both_ends(uint64_t{}, uint64_t{});
  } else if (bytes >= 4) {
    both_ends(uint32_t{}, uint32_t{});
  } else if (bytes > 0) {
    // With one, two or three bytes, these three indices cover all bytes.
    const uint8_t first = from[0];
    const uint8_t middle = from[bytes / 2];
    const uint8_t last = from[bytes - 1];
    to[0] = first;
    to[bytes / 2] = middle;
    to[bytes - 1] = last;
  }
}

}  // namespace fastload
