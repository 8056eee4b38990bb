// Copies of marked rows: the rows whose bit is set in a mask.
#pragma once

#include <cstdint>

namespace fastload {

// The bits of one word of marks.
inline constexpr int64_t kMarksPerWord = 64;

// Copies the marked ones of the packed rows `rows` of `width` bytes to `out`, `stride`
// bytes apart, in order. Row i is marked if bit i % 64 of marks[i / 64] is set. Copies
// `marked` rows, which is at most the number of marks. Rows up to the end of the last
// word's marks may be read. `out` may be `rows`, with a stride of `width`.
void CopyMarked(const uint8_t* rows, int64_t width, const uint64_t* marks, int64_t marked,
                uint8_t* out, int64_t stride);

// Returns the number of marks in front of mark `end`.
int64_t CountMarks(const uint64_t* marks, int64_t end);

}  // namespace fastload
