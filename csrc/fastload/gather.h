// Collation of shuffled rows: out[i] = rows[index[i]].
#pragma once

#include <cstdint>

namespace fastload {

// Copies `count` rows of `width` bytes from `rows` (packed) to out, out + stride, ...
void Gather(const uint8_t* rows, int64_t width, const uint32_t* index, int64_t count,
            uint8_t* out, int64_t stride);

}  // namespace fastload
