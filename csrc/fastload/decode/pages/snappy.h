// Decompression of Snappy in the raw format of Parquet's pages:
// https://github.com/google/snappy/blob/main/format_description.txt
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace fastload {

// The bytes behind the output that SnappyDecompress may overwrite.
inline constexpr int64_t kSnappySlack = 64;

// The most output bytes per input byte: three input bytes make at most 64 output bytes.
// A page that claims more is damaged; no memory is allocated for such a page.
inline constexpr int64_t kSnappyExpansion = 22;

// Returns the decompressed size that the compressed bytes state, or nullopt if they state
// no size, or a larger size than this many compressed bytes can hold.
std::optional<int64_t> SnappySize(std::span<const uint8_t> compressed);

// Decompresses to the `size` bytes at `out`, which is followed by kSnappySlack more
// bytes. Returns false if the compressed bytes are damaged, or have another decompressed
// size. Never writes beyond the slack, and never reads beyond `compressed`.
bool SnappyDecompress(std::span<const uint8_t> compressed, uint8_t* out, int64_t size);

}  // namespace fastload
