#include "fastload/base/recycling_pool.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "fastload/base/memory.h"
#include "fastload/base/status.h"

namespace fastload {

RecyclingPool::RecyclingPool(arrow::MemoryPool* base, int64_t limit_bytes)
    : base_(base), limit_bytes_(limit_bytes) {}

RecyclingPool::~RecyclingPool() {
  for (auto piece = spare_.TakeLargest(); piece.data; piece = spare_.TakeLargest()) {
    base_->Free(piece.data, piece.capacity, kAlignment);
  }
}

arrow::Status RecyclingPool::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  if (size <= 0 || alignment > kAlignment) return base_->Allocate(size, alignment, out);
  const int64_t capacity = SizeClass(size);
  try {
    std::lock_guard lock(mutex_);
    *out = spare_.Take(capacity);
    if (*out != nullptr) return arrow::Status::OK();
    spare_.Announce(capacity);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
  arrow::Status status = base_->Allocate(capacity, kAlignment, out);
  if (!status.ok()) {
    std::lock_guard lock(mutex_);
    spare_.Forget(capacity);
  }
  return status;
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
    if (spare_.bytes() + capacity <= limit_bytes_) {
      return spare_.Keep({buffer, capacity});
    }
    spare_.Forget(capacity);
  }
  base_->Free(buffer, capacity, kAlignment);
}

}  // namespace fastload
