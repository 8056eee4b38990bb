#include "fastload/base/block_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
  return CatchParquet([&] { return AllocateBlock(size, out); });
}

arrow::Status BlockMemory::AllocateBlock(int64_t size, uint8_t** out) {
  ARROW_ASSIGN_OR_RAISE(auto block, pool_->Allocate(size));
  blocks_.push_back(block);
  *out = block->data();
  max_bytes_ = std::max(max_bytes_, bytes_allocated());
  total_bytes_ += size;
  ++allocations_;
  return arrow::Status::OK();
}

arrow::Status BlockMemory::Reallocate(int64_t old_size, int64_t new_size,
                                      int64_t alignment, uint8_t** ptr) {
  for (const auto& block : blocks_) {
    if (block->data() == *ptr && new_size > 0 && new_size <= block->capacity()) {
      return arrow::Status::OK();
    }
  }
  uint8_t* moved = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &moved));
  const int64_t kept = std::min(old_size, new_size);
  if (kept > 0) std::memcpy(moved, *ptr, static_cast<size_t>(kept));
  Free(*ptr, old_size, alignment);
  *ptr = moved;
  return arrow::Status::OK();
}

void BlockMemory::Free(uint8_t* buffer, int64_t, int64_t) {
  std::erase_if(blocks_, [buffer](const auto& block) { return block->data() == buffer; });
}

int64_t BlockMemory::bytes_allocated() const {
  int64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->capacity();
  return bytes;
}

}  // namespace fastload
