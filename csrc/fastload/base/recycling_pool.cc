#include "fastload/base/recycling_pool.h"

#include <algorithm>
#include <cstring>

#include "fastload/base/memory.h"

namespace fastload {

RecyclingPool::RecyclingPool(arrow::MemoryPool* base, int64_t limit_bytes)
    : base_(base), limit_bytes_(limit_bytes) {}

RecyclingPool::~RecyclingPool() {
  for (auto& [capacity, buffers] : kept_) {
    for (uint8_t* buffer : buffers) base_->Free(buffer, capacity, kAlignment);
  }
}

arrow::Status RecyclingPool::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  if (size <= 0 || alignment > kAlignment) return base_->Allocate(size, alignment, out);
  const int64_t capacity = SizeClass(size);
  {
    std::lock_guard lock(mutex_);
    const auto found = kept_.find(capacity);
    if (found != kept_.end() && !found->second.empty()) {
      *out = found->second.back();
      found->second.pop_back();
      kept_bytes_ -= capacity;
      return arrow::Status::OK();
    }
  }
  return base_->Allocate(capacity, kAlignment, out);
}

arrow::Status RecyclingPool::Reallocate(int64_t old_size, int64_t new_size,
                                        int64_t alignment, uint8_t** ptr) {
  const bool same = old_size > 0 && new_size > 0 && alignment <= kAlignment &&
                    SizeClass(old_size) == SizeClass(new_size);
  if (same) return arrow::Status::OK();
  uint8_t* moved = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &moved));
  const int64_t kept = std::min(old_size, new_size);
  if (kept > 0) std::memcpy(moved, *ptr, static_cast<size_t>(kept));
  Free(*ptr, old_size, alignment);
  *ptr = moved;
  return arrow::Status::OK();
}

void RecyclingPool::Free(uint8_t* buffer, int64_t size, int64_t alignment) {
  if (size <= 0 || alignment > kAlignment) return base_->Free(buffer, size, alignment);
  const int64_t capacity = SizeClass(size);
  {
    std::lock_guard lock(mutex_);
    if (kept_bytes_ + capacity <= limit_bytes_) {
      kept_[capacity].push_back(buffer);
      kept_bytes_ += capacity;
      return;
    }
  }
  base_->Free(buffer, capacity, kAlignment);
}

}  // namespace fastload
