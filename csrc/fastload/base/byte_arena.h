// Memory for values of varying length that many views refer to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"

namespace fastload {

// An allocator that packs values into large blocks, because reading values in any order
// from large blocks takes few address translations. All values live until the arena is
// cleared or destroyed. Not thread-safe.
class ByteArena {
 public:
  // Takes blocks from `pool`, which is borrowed, or from a pool of its own if `pool` is
  // null: a pool of the process would belong to the parent in a fork.
  explicit ByteArena(BlockPool* pool = nullptr) : pool_(pool) {}

  // Returns the start of `bytes` bytes, which are not aligned.
  Result<uint8_t*> Allocate(int64_t bytes);

  // Keeps `buffer` alive, because views refer to its bytes without a copy.
  void Keep(const std::shared_ptr<arrow::Buffer>& buffer);

  void Clear();

 private:
  BlockPool* pool_;
  std::unique_ptr<BlockPool> own_pool_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::shared_ptr<arrow::Buffer>> kept_;
  int64_t held_bytes_ = 0;  // bytes in all blocks
  uint8_t* next_ = nullptr;
  uint8_t* end_ = nullptr;
};

}  // namespace fastload
