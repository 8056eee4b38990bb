// Vectors for arrays that come and go, such as those of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "fastload/base/slabs.h"

namespace fastload {

// An allocator whose memory comes from the slabs of the process: mostly pages that were
// touched before, or huge pages. Elements that are added without a value have no
// specified content.
template <typename T>
struct SlabAllocator {
  using value_type = T;

  SlabAllocator() = default;
  template <typename U>
  explicit(false) SlabAllocator(const SlabAllocator<U>& /*other*/) noexcept {}

  T* allocate(size_t count) {
    if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_array_new_length();
    uint8_t* const data =
        Slabs::OfProcess().Allocate(static_cast<int64_t>(count * sizeof(T)));
    if (data == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(data);
  }
  void deallocate(T* data, size_t /*count*/) noexcept {
    Slabs::Free(reinterpret_cast<uint8_t*>(data));
  }

  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    if constexpr (sizeof...(Args) == 0) {
      ::new (static_cast<void*>(at)) U;
    } else {
      ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
    }
  }

  bool operator==(const SlabAllocator& /*other*/) const { return true; }
};

template <typename T>
using SlabVector = std::vector<T, SlabAllocator<T>>;

}  // namespace fastload
