// Unpacking of little-endian bit-packed unsigned integers, Parquet's RLE / bit-packed
// hybrid: https://parquet.apache.org/docs/file-format/data-pages/encodings/
#pragma once

#include <cstdint>

namespace fastload {

// Bytes past the packed groups that UnpackGroups may read.
constexpr int64_t kUnpackSlack = 8;

// Unpacks `groups` groups of 8 values of `width` bits (0 to 32) each. `in` must be
// readable for groups * width + kUnpackSlack bytes.
void UnpackGroups(const uint8_t* in, int64_t groups, int width, uint32_t* out);

// Unpacks `groups` bytes to 8 bytes each, 0 or 1.
void UnpackBits(const uint8_t* in, int64_t groups, uint8_t* out);

// The largest of n values; 0 when n is 0.
uint32_t MaxOf(const uint32_t* values, int64_t n);

}  // namespace fastload
