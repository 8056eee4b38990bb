#include "fastload/base/block_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace fastload {
namespace {

// The result of an allocation of 0 bytes.
alignas(kAlignment) uint8_t nothing[kAlignment];

}  // namespace

arrow::Status BlockMemory::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  if (size < 0 || alignment > kAlignment) {
    return arrow::Status::Invalid("Expected a size and an alignment up to ", kAlignment,
                                  ", got ", size, " bytes aligned to ", alignment);
  }
  if (size == 0) {
    *out = nothing;
    return arrow::Status::OK();
  }
  try {
    *out = pool_->Take(size);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
  if (*out == nullptr) return OutOfMemory();
  bytes_ += size;
  total_bytes_ += size;
  ++allocations_;
  return arrow::Status::OK();
}

arrow::Status BlockMemory::Reallocate(int64_t old_size, int64_t new_size,
                                      int64_t alignment, uint8_t** ptr) {
  if (old_size > 0 && new_size > 0 && SizeClass(old_size) == SizeClass(new_size)) {
    bytes_ += new_size - old_size;
    return arrow::Status::OK();
  }
  uint8_t* moved = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &moved));
  const int64_t kept = std::min(old_size, new_size);
  if (kept > 0) std::memcpy(moved, *ptr, static_cast<size_t>(kept));
  Free(*ptr, old_size, alignment);
  *ptr = moved;
  return arrow::Status::OK();
}

void BlockMemory::Free(uint8_t* buffer, int64_t size, int64_t) {
  if (size <= 0) return;
  bytes_ -= size;
  pool_->Give(buffer, size);
}

}  // namespace fastload
