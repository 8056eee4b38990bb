#include "fastload/collate/tile.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fastload/base/stream_copy.h"
#include "fastload/base/strided.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace fastload {
namespace {

// Rows that Stream puts together before they are copied; the rows stay in the L1 cache.
constexpr int64_t kStreamBytes = 8 << 10;

// Elements of a column lie `pitch` elements behind those of the column before, rows of
// `out` have `stride` bytes.
template <typename T>
struct TileRows {
  const T* from;
  size_t pitch;
  size_t columns;
  uint8_t* out;
  int64_t stride;
};

// Copies columns [first, columns) of `count` rows.
template <typename T, typename StoreItem>
void ForEachItem(const TileRows<T>& rows, size_t first, int64_t count,
                 const StoreItem& store) {
  const T* from = rows.from;
  uint8_t* out = rows.out;
  for (int64_t row = 0; row < count; ++row, ++from, out += rows.stride) {
    for (size_t c = first; c < rows.columns; ++c) {
      store(from[c * rows.pitch], out + c * sizeof(T));
    }
  }
}

template <typename T>
void CopyItem(T item, uint8_t* to) {
  std::memcpy(to, &item, sizeof(item));
}

#if defined(__SSE2__)
__m128i Load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

void Save(__m128i word, uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), word);
}

// Copies 2 rows of 2 columns that begin at column c.
void CopySquare(const TileRows<uint64_t>& rows, size_t c) {
  const uint64_t* from = rows.from + c * rows.pitch;
  const __m128i first = Load(from);
  const __m128i second = Load(from + rows.pitch);
  uint8_t* out = rows.out + c * sizeof(uint64_t);
  Save(_mm_unpacklo_epi64(first, second), out);
  Save(_mm_unpackhi_epi64(first, second), out + rows.stride);
}

// Copies 4 rows of 4 columns that begin at column c.
void CopySquare(const TileRows<uint32_t>& rows, size_t c) {
  const uint32_t* from = rows.from + c * rows.pitch;
  const __m128i a = Load(from);
  const __m128i b = Load(from + rows.pitch);
  const __m128i d = Load(from + 2 * rows.pitch);
  const __m128i e = Load(from + 3 * rows.pitch);
  const __m128i ab01 = _mm_unpacklo_epi32(a, b);
  const __m128i ab23 = _mm_unpackhi_epi32(a, b);
  const __m128i de01 = _mm_unpacklo_epi32(d, e);
  const __m128i de23 = _mm_unpackhi_epi32(d, e);
  uint8_t* out = rows.out + c * sizeof(uint32_t);
  Save(_mm_unpacklo_epi64(ab01, de01), out);
  Save(_mm_unpackhi_epi64(ab01, de01), out + rows.stride);
  Save(_mm_unpacklo_epi64(ab23, de23), out + 2 * rows.stride);
  Save(_mm_unpackhi_epi64(ab23, de23), out + 3 * rows.stride);
}
#endif

// Copies rows by squares, which are transposed in registers, where there are any.
template <typename T>
void StoreRows(TileRows<T> rows, int64_t count) {
#if defined(__SSE2__)
  if constexpr (sizeof(T) >= 4) {
    constexpr size_t kSide = sizeof(__m128i) / sizeof(T);
    for (; count >= static_cast<int64_t>(kSide); count -= kSide) {
      size_t c = 0;
      for (; c + kSide <= rows.columns; c += kSide) CopySquare(rows, c);
      ForEachItem(rows, c, kSide, CopyItem<T>);
      rows.from += kSide;
      rows.out += static_cast<int64_t>(kSide) * rows.stride;
    }
  }
#endif
  ForEachItem(rows, 0, count, CopyItem<T>);
}

// Copies rows through a block in the L1 cache, so that whole lines go past the caches.
template <typename T>
void StreamRows(TileRows<T> rows, int64_t count) {
  const auto width = static_cast<int64_t>(rows.columns * sizeof(T));
  alignas(kCacheLine) std::array<uint8_t, kStreamBytes> block;
  uint8_t* out = rows.out;
  const int64_t stride = rows.stride;
  rows.out = block.data();
  rows.stride = width;
  while (count > 0) {
    const int64_t n = std::min(count, kStreamBytes / width);
    StoreRows(rows, n);
    if (stride == width) {
      StreamCopy(out, block.data(), n * width);
    } else {
      for (int64_t row = 0; row < n; ++row) {
        StreamCopy(out + row * stride, block.data() + row * width, width);
      }
    }
    rows.from += n;
    out += n * stride;
    count -= n;
  }
}

}  // namespace

template <typename Fn>
void Tile::WithRows(int64_t first, uint8_t* out, int64_t stride, const Fn& fn) const {
  WithItem(static_cast<int>(item_), [&]<typename T>(T) {
    fn(TileRows<T>{.from = reinterpret_cast<const T*>(memory_) + first,
                   .pitch = static_cast<size_t>(Pitch(item_, columns_)) / sizeof(T),
                   .columns = columns_,
                   .out = out,
                   .stride = stride});
  });
}

void Tile::Store(int64_t first, int64_t rows, uint8_t* out, int64_t stride) const {
  WithRows(first, out, stride, [&](const auto& some) { StoreRows(some, rows); });
}

void Tile::Stream(int64_t first, int64_t rows, uint8_t* out, int64_t stride) const {
  const int64_t width = item_ * static_cast<int64_t>(columns_);
  WithRows(first, out, stride, [&]<typename T>(const TileRows<T>& some) {
    if (sizeof(T) < sizeof(uint64_t) && width <= kStreamBytes) {
      StreamRows(some, rows);
    } else {
      ForEachItem(some, 0, rows, StreamStore<T>);
    }
  });
}

}  // namespace fastload
