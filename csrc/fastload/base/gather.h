// Scatters and gathers: rows are copied to, or from, the places that an index names.
#pragma once

#include <cstdint>

namespace fastload {

// When the written memory is read next. kSoon: soon, so that the memory should stay in a
// cache. kLate: late, so the stores bypass the caches, and the writer calls StreamFence
// before another thread reads the memory.
enum class NextRead : uint8_t { kSoon, kLate };

// Copies `count` packed rows of `width` bytes: row i to `to + slots[i] * width`.
void Scatter(const uint8_t* rows, int64_t width, const uint32_t* slots, int64_t count,
             uint8_t* to);

// Sets out[i] = table[codes[index[i]]] for `count` elements of `width` bytes (2, 4 or 8).
// The codes have `code_bytes` bytes (1, 2 or 4, fewer than `width`) and are packed. Index
// is uint16_t or uint32_t.
template <typename Index>
void GatherCodes(const uint8_t* codes, int64_t code_bytes, const Index* index,
                 int64_t count, const uint8_t* table, int64_t width, uint8_t* out,
                 NextRead next);

// Does the same as GatherCodes for codes that are `pitch` bytes apart and elements that
// are `stride` bytes apart.
void GatherRecordCodes(const uint8_t* codes, int64_t pitch, int64_t code_bytes,
                       const uint32_t* index, int64_t count, const uint8_t* table,
                       int64_t width, uint8_t* out, int64_t stride);

// Copies `count` of the packed rows `rows` of `width` bytes: row index[i] to `out + i *
// stride`. Index is uint16_t or uint32_t.
template <typename Index>
void Gather(const uint8_t* rows, int64_t width, const Index* index, int64_t count,
            uint8_t* out, int64_t stride, NextRead next = NextRead::kSoon);

// The bytes behind the rows of GatherNear that may be read.
inline constexpr int64_t kGatherNearSlack = 128;

// Does the same as Gather, and is faster for an ascending index whose neighbours are near
// each other, if the rows in `out` are packed. Reads up to kGatherNearSlack bytes behind
// the last row of the index.
void GatherNear(const uint8_t* rows, int64_t width, const uint16_t* index, int64_t count,
                uint8_t* out, int64_t stride);

}  // namespace fastload
