// A random order of units in which every run of units has about the same work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fastload {

// Squares of lengths: the squares of a batch together may exceed 64 bits.
__extension__ using Work = unsigned __int128;

// Returns the unit at each position: a permutation of the units that `work` names. The
// units, from the most work to the least and equal ones in their order, are dealt to the
// two halves of the positions, one of each two neighbours to each half, as the bits of
// the stream `key` say; and so on within each half. So of 2**k successive units, where
// halves of halves begin, each is from another 2**k-th of the units by work.
// `balanced_order` in tests/support/packing.py defines the order.
std::vector<uint32_t> BalancedOrder(uint64_t key, std::span<const Work> work);

}  // namespace fastload
