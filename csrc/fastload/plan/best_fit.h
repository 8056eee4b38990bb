// Best fit decreasing: items of different sizes in bins of one capacity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fastload {

// Returns the bin of each item. Items are placed from the largest to the smallest, equal
// ones in their order; each goes to the bin with the least room that suffices, of equal
// ones to the latest that came to this room, else to a new bin. Every size is between 1
// and `capacity`. (D. S. Johnson, "Near-optimal bin packing algorithms", MIT, 1973.)
std::vector<int32_t> BestFit(std::span<const uint32_t> sizes, uint32_t capacity);

}  // namespace fastload
