// Working memory in huge pages, where the system has huge pages.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include "fastload/base/platform.h"

namespace fastload {

// Returns `bytes` bytes, which the caller frees with std::free, or nullptr if memory has
// run out. Working memory that is walked once for every column of a window costs one
// address translation per page, and translations are slow inside a virtual machine. Huge
// pages need 512 times fewer translations.
inline void* AllocateHuge(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  constexpr size_t kCacheLine = 64;
  const size_t alignment = bytes < kHugePage / 2 ? kCacheLine : kHugePage;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data != nullptr && alignment == kHugePage) AdviseHugePages(data, rounded);
  return data;
}

template <typename T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <typename U>
  explicit(false) HugeAllocator(const HugeAllocator<U>&) {}

  T* allocate(size_t count) {
    void* data = AllocateHuge(count * sizeof(T));
    if (data == nullptr) throw std::bad_alloc();
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t) { std::free(data); }
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
