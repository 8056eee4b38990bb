#include "fastload/base/byte_arena.h"

#include <algorithm>

namespace fastload {
namespace {

// Block sizes: an arena of few values takes little memory, and an arena of many values
// lies in huge pages.
constexpr int64_t kLeastBlock = int64_t{64} << 10;
constexpr int64_t kMostBlock = int64_t{4} << 20;

}  // namespace

Result<uint8_t*> ByteArena::Allocate(int64_t bytes) {
  if (bytes > end_ - next_) {
    const int64_t block_bytes = std::clamp(held_bytes_ / 2, kLeastBlock, kMostBlock);
    if (pool_ == nullptr && own_pool_ == nullptr) {
      own_pool_ = std::make_unique<BlockPool>(MakePrivateMemory(), /*limit_bytes=*/0);
    }
    BlockPool* const pool = pool_ == nullptr ? own_pool_.get() : pool_;
    ARROW_ASSIGN_OR_RAISE(auto block, pool->Allocate(std::max(bytes, block_bytes)));
    blocks_.push_back(block);
    next_ = block->data();
    end_ = next_ + block->size();
    held_bytes_ += block->size();
  }
  uint8_t* const data = next_;
  next_ += bytes;
  return data;
}

void ByteArena::Keep(const std::shared_ptr<arrow::Buffer>& buffer) {
  if (kept_.empty() || kept_.back() != buffer) kept_.push_back(buffer);
}

void ByteArena::Clear() {
  blocks_.clear();
  kept_.clear();
  held_bytes_ = 0;
  next_ = end_ = nullptr;
}

}  // namespace fastload
