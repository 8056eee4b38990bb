// Decompression of Snappy, in the raw format that Parquet's pages have:
// https://github.com/google/snappy/blob/main/format_description.txt
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace fastload {

// Bytes behind the output that SnappyDecompress may overwrite.
inline constexpr int64_t kSnappySlack = 64;

// The size that compressed bytes say they decompress to; nullopt if they say none, or
// more than so many bytes can hold.
std::optional<int64_t> SnappySize(std::span<const uint8_t> compressed);

// Decompresses to the `size` bytes at `out`, which kSnappySlack more follow. False where
// the bytes are damaged, or decompress to another size; nothing beyond the slack is
// written, nothing beyond `compressed` is read.
bool SnappyDecompress(std::span<const uint8_t> compressed, uint8_t* out, int64_t size);

}  // namespace fastload
