// Memory of loops that measure the core's way with memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "fastload/base/platform.h"

// Returns zeroed memory of `count` values in huge pages, which is never freed.
template <typename T>
T* Memory(size_t count) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t bytes = (count * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
  void* const data = std::aligned_alloc(kHugePage, bytes);
  if (data == nullptr) std::abort();
  fastload::AdviseHugePages(data, bytes);
  std::memset(data, 0, bytes);
  return static_cast<T*>(data);
}
