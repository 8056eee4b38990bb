#include "fastload/decode/pages/bit_unpack.h"

#include <bit>
#include <cstring>
#include <utility>

#include "fastload/base/clones.h"

namespace fastload {

static_assert(std::endian::native == std::endian::little,
              "Parquet is little-endian, and so is every machine that torch supports");

namespace {

FASTLOAD_INLINE uint64_t Load64(const uint8_t* in) {
  uint64_t word;
  std::memcpy(&word, in, sizeof(word));
  return word;
}

// Vectors of eight values, so that the shifts become one or two vector instructions.
typedef uint64_t Words __attribute__((vector_size(64)));
template <typename T>
struct Eight {
  typedef T Values __attribute__((vector_size(8 * sizeof(T))));
};

template <int kWidth, typename T>
FASTLOAD_INLINE void UnpackGroup(const uint8_t* in, T* out) {
  using Values = typename Eight<T>::Values;
  constexpr uint64_t kMask = (uint64_t{1} << kWidth) - 1;
  Words words;
  Words shifts;
  if constexpr (kWidth <= 8) {
    const uint64_t word = Load64(in);
    words = Words{word, word, word, word, word, word, word, word};
    shifts = Words{0,          kWidth,     2 * kWidth, 3 * kWidth,
                   4 * kWidth, 5 * kWidth, 6 * kWidth, 7 * kWidth};
  } else if constexpr (kWidth <= 16) {
    // The first four values end at bit 4 * width. If the width is odd, the second four
    // values begin in the middle of a byte, and then 4 * 15 + 4 bits still fit into 64.
    constexpr uint64_t kHalf = 4 * (kWidth % 2);
    const uint64_t low = Load64(in);
    const uint64_t high = Load64(in + kWidth / 2);
    words = Words{low, low, low, low, high, high, high, high};
    shifts = Words{0,     kWidth,         2 * kWidth,         3 * kWidth,
                   kHalf, kHalf + kWidth, kHalf + 2 * kWidth, kHalf + 3 * kWidth};
  } else {
    words = Words{Load64(in),
                  Load64(in + kWidth / 8),
                  Load64(in + 2 * kWidth / 8),
                  Load64(in + 3 * kWidth / 8),
                  Load64(in + 4 * kWidth / 8),
                  Load64(in + 5 * kWidth / 8),
                  Load64(in + 6 * kWidth / 8),
                  Load64(in + 7 * kWidth / 8)};
    shifts = Words{0,
                   kWidth % 8,
                   2 * kWidth % 8,
                   3 * kWidth % 8,
                   4 * kWidth % 8,
                   5 * kWidth % 8,
                   6 * kWidth % 8,
                   7 * kWidth % 8};
  }
  const Words unpacked = (words >> shifts) & kMask;
  const Values values = __builtin_convertvector(unpacked, Values);
  std::memcpy(out, &values, sizeof(values));
}

// Widens values that are whole integers, for which compilers have special instructions.
template <typename From, typename T>
FASTLOAD_INLINE void Widen(const uint8_t* in, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    out[i] = value;
  }
}

template <int kWidth, typename T>
FASTLOAD_INLINE void UnpackWidth(const uint8_t* in, int64_t groups, T* out) {
  if constexpr (kWidth == 8) return Widen<uint8_t>(in, groups * 8, out);
  if constexpr (kWidth == 16) return Widen<uint16_t>(in, groups * 8, out);
  if constexpr (kWidth == 32) return Widen<uint32_t>(in, groups * 8, out);
  for (int64_t group = 0; group < groups; ++group) {
    UnpackGroup<kWidth>(in + group * kWidth, out + group * 8);
  }
}

template <typename T, int... kWidths>
FASTLOAD_INLINE void Dispatch(const uint8_t* in, int64_t groups, int width, T* out,
                              std::integer_sequence<int, kWidths...>) {
  ((width == kWidths + 1 ? UnpackWidth<kWidths + 1>(in, groups, out) : void()), ...);
}

template <int kMostWidth, typename T>
FASTLOAD_INLINE void Unpack(const uint8_t* in, int64_t groups, int width, T* out) {
  if (width == 0) {
    std::memset(out, 0, static_cast<size_t>(groups) * 8 * sizeof(T));
    return;
  }
  Dispatch(in, groups, width, out, std::make_integer_sequence<int, kMostWidth>{});
}

// Returns the largest of n values at any address.
template <typename T>
FASTLOAD_INLINE T Largest(const T* values, int64_t n) {
  const auto* in = reinterpret_cast<const uint8_t*>(values);
  T largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, in + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    largest = value > largest ? value : largest;
  }
  return largest;
}

}  // namespace

FASTLOAD_CLONES void UnpackGroups(const uint8_t* in, int64_t groups, int width,
                                  uint32_t* out) {
  Unpack<32>(in, groups, width, out);
}

FASTLOAD_CLONES void UnpackGroups(const uint8_t* in, int64_t groups, int width,
                                  uint16_t* out) {
  Unpack<16>(in, groups, width, out);
}

void UnpackBits(const uint8_t* in, int64_t groups, uint8_t* out) {
  // The multiplication moves bit i to the top bit of byte 7 - i without carries.
  constexpr uint64_t kSpread = 0x8040201008040201;
  constexpr uint64_t kTop = 0x8080808080808080;
  for (int64_t group = 0; group < groups; ++group) {
    const uint64_t bytes = __builtin_bswap64(((in[group] * kSpread) & kTop) >> 7);
    std::memcpy(out + group * 8, &bytes, sizeof(bytes));
  }
}

FASTLOAD_CLONES uint32_t MaxOf(const uint32_t* values, int64_t n) {
  return Largest(values, n);
}

FASTLOAD_CLONES uint32_t MaxOf(const uint16_t* values, int64_t n) {
  return Largest(values, n);
}

}  // namespace fastload
