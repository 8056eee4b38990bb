#include "fastload/permutation.h"

#include <numeric>
#include <utility>

namespace fastload {

void Permutation(uint64_t key, uint32_t rows, std::vector<uint32_t>* out) {
  constexpr uint64_t kGamma = 0x9E3779B97F4A7C15ULL;
  out->resize(rows);
  std::iota(out->begin(), out->end(), 0U);
  uint32_t* a = out->data();
  uint64_t counter = key;
  for (uint32_t i = rows; i > 1; --i) {
    counter += kGamma;
    __extension__ using Wide = unsigned __int128;
    const auto j = static_cast<uint32_t>((static_cast<Wide>(Mix64(counter)) * i) >> 64);
    std::swap(a[i - 1], a[j]);
  }
}

}  // namespace fastload
