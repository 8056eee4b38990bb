// Unpacking of little-endian bit-packed unsigned integers from Parquet's RLE / bit-packed
// hybrid: https://parquet.apache.org/docs/file-format/data-pages/encodings/
#pragma once

#include <cstdint>

namespace fastload {

// The bytes behind the packed groups that UnpackGroups may read.
constexpr int64_t kUnpackSlack = 8;

// Unpacks `groups` groups of 8 values of `width` bits (0 to 32). `in` must be readable
// for groups * width + kUnpackSlack bytes.
void UnpackGroups(const uint8_t* in, int64_t groups, int width, uint32_t* out);
// Does the same for at most 16 bits.
void UnpackGroups(const uint8_t* in, int64_t groups, int width, uint16_t* out);

// Unpacks each of `groups` bytes to 8 bytes with the value 0 or 1.
void UnpackBits(const uint8_t* in, int64_t groups, uint8_t* out);

// Returns the largest of n values, or 0 if n is 0. The values may lie at any address.
uint32_t MaxOf(const uint32_t* values, int64_t n);
uint32_t MaxOf(const uint16_t* values, int64_t n);

}  // namespace fastload
