// Reproducible permutations: the same bytes on every machine and in every release.
#pragma once

#include <cstdint>
#include <vector>

namespace fastload {

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014).
constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Fills `out` with the permutation of 0 .. rows-1 that `key` names: Durstenfeld's shuffle
// with value i of the stream `key` being Mix64(key + (i + 1) * 0x9E3779B97F4A7C15).
// fastload.plan.permutation is the same function.
void Permutation(uint64_t key, uint32_t rows, std::vector<uint32_t>* out);

}  // namespace fastload
