#include "fastload/base/copy_marked.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "fastload/base/clones.h"

#ifdef FASTLOAD_AVX512
#include <immintrin.h>
#endif

namespace fastload {
namespace {

static_assert(std::endian::native == std::endian::little);

// The positions of the set bits of each byte, one position a byte.
constexpr std::array<uint64_t, 256> PositionsOfBytes() {
  std::array<uint64_t, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    int count = 0;
    for (uint64_t bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1U) != 0) table[byte] |= bit << (8 * count++);
    }
  }
  return table;
}

// The number of set bits of each byte: a processor may lack an instruction that counts.
constexpr std::array<uint8_t, 256> CountsOfBytes() {
  std::array<uint8_t, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    table[byte] = static_cast<uint8_t>(std::popcount(byte));
  }
  return table;
}

constexpr std::array<uint64_t, 256> kPositions = PositionsOfBytes();
constexpr std::array<uint8_t, 256> kCounts = CountsOfBytes();

// Writes the positions of the marks of a word, and returns their number. `out` has room
// for 8 numbers behind the positions.
FASTLOAD_INLINE int64_t PositionsOf(uint64_t word, uint8_t* out) {
  uint8_t* const begin = out;
  for (uint64_t first = 0; word != 0; word >>= 8, first += 8) {
    // All eight, since a loop over those that are set would be predicted badly.
    const uint64_t positions = kPositions[word & 0xFF] + first * 0x0101010101010101;
    std::memcpy(out, &positions, sizeof(positions));
    out += kCounts[word & 0xFF];
  }
  return out - begin;
}

// Calls copy(row, slot) with `marked` marked rows, and the rows' places in the output.
template <typename Copy>
FASTLOAD_INLINE void ForEachMarked(const uint64_t* marks, int64_t marked,
                                   const Copy& copy) {
  std::array<uint8_t, kMarksPerWord + 8> positions;
  for (int64_t slot = 0, first = 0; slot < marked; first += kMarksPerWord) {
    const int64_t count =
        std::min(PositionsOf(*marks++, positions.data()), marked - slot);
    for (int64_t i = 0; i < count; ++i) {
      copy(first + positions[static_cast<size_t>(i)], slot + i);
    }
    slot += count;
  }
}

template <size_t kWidth>
void CopyStrided(const uint8_t* rows, const uint64_t* marks, int64_t marked, uint8_t* out,
                 int64_t stride) {
  ForEachMarked(marks, marked, [=](int64_t row, int64_t slot) {
    std::memcpy(out + slot * stride, rows + row * static_cast<int64_t>(kWidth), kWidth);
  });
}

#ifdef FASTLOAD_AVX512

// The rows of one step.
constexpr int64_t kLanes = 16;

#define FASTLOAD_V4 FASTLOAD_INLINE __attribute__((target("arch=x86-64-v4")))

// Copies the marked ones of 16 rows to `out`, of which 16 may be overwritten.
template <size_t kWidth>
FASTLOAD_V4 void CopyLanes(const uint8_t* rows, __mmask16 mask, uint8_t* out) {
  using Lanes __attribute__((vector_size(kLanes * sizeof(uint32_t)))) = uint32_t;
  if constexpr (kWidth < 4) {
    // The processor may lack a compression of lanes of less than 32 bits.
    using T = std::conditional_t<kWidth == 1, uint8_t, uint16_t>;
    using Narrow __attribute__((vector_size(kLanes * kWidth))) = T;
    Narrow narrow;
    std::memcpy(&narrow, rows, sizeof(narrow));
    const auto wide = reinterpret_cast<__m512i>(__builtin_convertvector(narrow, Lanes));
    const auto found = reinterpret_cast<Lanes>(_mm512_maskz_compress_epi32(mask, wide));
    narrow = __builtin_convertvector(found, Narrow);
    std::memcpy(out, &narrow, sizeof(narrow));
  } else if constexpr (kWidth == 4) {
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(mask, _mm512_loadu_si512(rows)));
  } else {
    const auto low = static_cast<__mmask8>(mask);
    const auto high = static_cast<__mmask8>(mask >> 8);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(rows)));
    _mm512_storeu_si512(out + 8 * std::popcount(static_cast<unsigned>(low)),
                        _mm512_maskz_compress_epi64(high, _mm512_loadu_si512(rows + 64)));
  }
}

template <size_t kWidth>
FASTLOAD_V4 void CopySteps(const uint8_t* rows, const uint64_t* marks, int64_t marked,
                           uint8_t* out) {
  constexpr auto kBytes = static_cast<int64_t>(kWidth);
  for (int64_t first = 0; marked > 0; first += kMarksPerWord) {
    uint64_t word = *marks++;
    for (int64_t lane = first; lane < first + kMarksPerWord; lane += kLanes) {
      const auto mask = static_cast<__mmask16>(word);
      word >>= kLanes;
      const int64_t count = std::popcount(static_cast<unsigned>(mask));
      if (marked >= kLanes) {
        CopyLanes<kWidth>(rows + lane * kBytes, mask, out);
      } else {
        // The bytes behind the last row are not the caller's.
        std::array<uint8_t, kLanes * kWidth> last;
        CopyLanes<kWidth>(rows + lane * kBytes, mask, last.data());
        std::memcpy(out, last.data(),
                    static_cast<size_t>(std::min(count, marked)) * kWidth);
        if (count >= marked) return;
      }
      out += count * kBytes;
      marked -= count;
    }
  }
}

// Copies packed rows, and returns true if rows of the width can be copied so.
FASTLOAD_AVX512 bool CopyPacked(const uint8_t* rows, int64_t width, const uint64_t* marks,
                                int64_t marked, uint8_t* out) {
  switch (width) {
    case 1:
      CopySteps<1>(rows, marks, marked, out);
      return true;
    case 2:
      CopySteps<2>(rows, marks, marked, out);
      return true;
    case 4:
      CopySteps<4>(rows, marks, marked, out);
      return true;
    case 8:
      CopySteps<8>(rows, marks, marked, out);
      return true;
    default:
      return false;
  }
}
#endif

FASTLOAD_OTHERS bool CopyPacked(const uint8_t* /*rows*/, int64_t /*width*/,
                                const uint64_t* /*marks*/, int64_t /*marked*/,
                                uint8_t* /*out*/) {
  return false;
}

}  // namespace

void CopyMarked(const uint8_t* rows, int64_t width, const uint64_t* marks, int64_t marked,
                uint8_t* out, int64_t stride) {
  if (stride == width && CopyPacked(rows, width, marks, marked, out)) return;
  switch (width) {
    case 1:
      return CopyStrided<1>(rows, marks, marked, out, stride);
    case 2:
      return CopyStrided<2>(rows, marks, marked, out, stride);
    case 4:
      return CopyStrided<4>(rows, marks, marked, out, stride);
    case 8:
      return CopyStrided<8>(rows, marks, marked, out, stride);
    case 16:
      return CopyStrided<16>(rows, marks, marked, out, stride);
    default:
      ForEachMarked(marks, marked, [=](int64_t row, int64_t slot) {
        std::memcpy(out + slot * stride, rows + row * width, static_cast<size_t>(width));
      });
  }
}

int64_t CountMarks(const uint64_t* marks, int64_t end) {
  int64_t count = 0;
  for (; end >= kMarksPerWord; end -= kMarksPerWord) count += std::popcount(*marks++);
  if (end > 0) count += std::popcount(*marks & ((uint64_t{1} << end) - 1));
  return count;
}

}  // namespace fastload
