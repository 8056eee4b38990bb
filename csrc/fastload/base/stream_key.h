// Keys of random streams, as fastload.plan.permutation defines the keys.
#pragma once

#include <cstdint>

namespace fastload {

// 2**64 divided by the golden ratio, made odd: SplitMix64's increment.
inline constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014; variant 13 of Stafford).
constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Returns the key of the stream whose name is the name behind `key` extended by `part`.
constexpr uint64_t Fold(uint64_t key, uint64_t part) {
  return Mix64((key ^ Mix64(part + kGamma)) + kGamma);
}

// Returns number i of the stream `key`.
constexpr uint64_t StreamValue(uint64_t key, uint64_t i) {
  return Mix64(key + (i + 1) * kGamma);
}

}  // namespace fastload
