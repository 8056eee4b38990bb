#include "fastload/collate/balanced_order.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

#include "fastload/base/stream_key.h"

namespace fastload {
namespace {

// The bits of a random stream, from the lowest bit of its first number on.
class RandomBits {
 public:
  explicit RandomBits(uint64_t key) : key_(key) {}
  size_t Next() {
    if (used_ % 64 == 0) bits_ = StreamValue(key_, used_ / 64);
    return bits_ >> (used_++ % 64) & 1;
  }

 private:
  uint64_t key_;
  uint64_t used_ = 0;
  uint64_t bits_ = 0;
};

// Deals units, the most work first, to halves, and goes on within each half. `other` has
// room for a half.
void Deal(std::span<uint32_t> units, std::span<uint32_t> other, RandomBits* bits) {
  while (units.size() > 1) {
    const size_t pairs = units.size() / 2;
    for (size_t pair = 0; pair < pairs; ++pair) {
      const size_t bit = bits->Next();
      const uint32_t first = units[2 * pair + bit];
      other[pair] = units[2 * pair + 1 - bit];
      units[pair] = first;
    }
    // The last of an odd number of units.
    const uint32_t last = units.back();
    size_t first_half = pairs;
    size_t second_half = pairs;
    if (units.size() % 2 != 0) {
      if (bits->Next() == 0) {
        units[first_half++] = last;
      } else {
        other[second_half++] = last;
      }
    }
    std::copy_n(other.begin(), second_half,
                units.begin() + static_cast<int64_t>(first_half));
    Deal(units.first(first_half), other, bits);
    units = units.subspan(first_half);
  }
}

}  // namespace

std::vector<uint32_t> BalancedOrder(uint64_t key, std::span<const Work> work) {
  std::vector<uint32_t> units(work.size());
  std::iota(units.begin(), units.end(), uint32_t{0});
  std::ranges::stable_sort(units, std::greater{},
                           [&](uint32_t unit) { return work[unit]; });
  std::vector<uint32_t> other(units.size() / 2 + 1);
  RandomBits bits(key);
  Deal(units, other, &bits);
  return units;
}

}  // namespace fastload
