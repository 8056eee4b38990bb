// Vectors in huge pages, where the system has huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "fastload/base/slabs.h"

namespace fastload {

// An allocator of vectors that lie in slabs. Working memory that is walked once for every
// column of a window costs one address translation per page, and translations are slow
// inside a virtual machine. Huge pages need 512 times fewer translations.
template <typename T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <typename U>
  explicit(false) HugeAllocator(const HugeAllocator<U>&) {}

  T* allocate(size_t count) {
    uint8_t* const data =
        Slabs::OfProcess().Allocate(static_cast<int64_t>(count * sizeof(T)));
    if (data == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(data);
  }
  void deallocate(T* data, size_t) { Slabs::Free(reinterpret_cast<uint8_t*>(data)); }
  // Leaves elements that get no value as they are, where a vector would write zeros.
  template <typename U>
  void construct(U* element) noexcept {
    ::new (static_cast<void*>(element)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* element, Arguments&&... arguments) {
    ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const HugeAllocator&) const { return true; }
};

}  // namespace fastload
