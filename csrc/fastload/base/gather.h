// Collation of shuffled rows: dealt to slots, then gathered from a bucket of slots.
#pragma once

#include <cstdint>

namespace fastload {

// When what is written is read: soon, so that it should be in a cache, or late. Then it
// is written past the caches, and StreamFence comes before another thread reads it.
enum class NextRead : uint8_t { kSoon, kLate };

// Copies `count` packed rows of `width` bytes: row i to to + slots[i] * width.
void Scatter(const uint8_t* rows, int64_t width, const uint32_t* slots, int64_t count,
             uint8_t* to);

// out[i] = table[codes[index[i]]], of elements of `width` bytes (2, 4 or 8) and codes of
// `code_bytes` (1, 2 or 4, fewer than `width`) that lie without gaps. `ahead` as for
// Gather.
void GatherCodes(const uint8_t* codes, int64_t code_bytes, const uint16_t* index,
                 int64_t count, const uint8_t* table, int64_t width, uint8_t* out,
                 const uint8_t* ahead, NextRead next);

// The same of codes that lie `pitch` bytes apart, for elements `stride` bytes apart.
void GatherRecordCodes(const uint8_t* codes, int64_t pitch, int64_t code_bytes,
                       const uint16_t* index, int64_t count, const uint8_t* table,
                       int64_t width, uint8_t* out, int64_t stride);

// Copies `count` rows of `width` bytes from a bucket of packed rows: row index[i] to
// out + i * stride. `ahead`, unless null, is what is gathered from next: as many of its
// rows are brought into the cache meanwhile.
void Gather(const uint8_t* bucket, int64_t width, const uint16_t* index, int64_t count,
            uint8_t* out, int64_t stride, const uint8_t* ahead,
            NextRead next = NextRead::kSoon);

}  // namespace fastload
