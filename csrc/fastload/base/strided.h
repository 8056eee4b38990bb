// Stores of fixed-width elements to memory with gaps, and among nulls.
#pragma once

#include <cstdint>
#include <cstring>

namespace fastload {

// A target of elements: the addresses out, out + stride, ...
struct Destination {
  uint8_t* out;
  int64_t stride;
};

template <typename T>
void StoreStrided(const T* items, int64_t rows, Destination to) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to.out + i * to.stride, items + i, sizeof(T));
  }
}

// Writes one element of an unsigned type per row: the next item where `valid` is 1,
// `fill` where `valid` is 0. There are as many items as ones in `valid`. Reads one item
// past the last.
template <typename T>
void Spread(const T* items, const uint8_t* valid, int64_t rows, T fill, Destination to) {
  for (int64_t i = 0; i < rows; ++i) {
    // A branch would be mispredicted for every other row.
    const auto ones = static_cast<T>(-static_cast<T>(valid[i]));
    const auto item = static_cast<T>(fill ^ ((fill ^ *items) & ones));
    std::memcpy(to.out + i * to.stride, &item, sizeof(T));
    items += valid[i];
  }
}

template <typename T>
void Fill(T fill, int64_t rows, Destination to) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to.out + i * to.stride, &fill, sizeof(T));
  }
}

// Calls fn with an unsigned integer of `item_size` bytes.
template <typename Fn>
void WithItem(int item_size, Fn&& fn) {
  switch (item_size) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    default:
      return fn(uint64_t{});
  }
}

}  // namespace fastload
