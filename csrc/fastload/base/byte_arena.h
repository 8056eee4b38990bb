// Memory of values of varying length that many views show.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"

namespace fastload {

// Packs values into large blocks, which take few address translations when they are read
// in any order. All of it lives until the arena is cleared or dies. Not thread-safe.
class ByteArena {
 public:
  // Blocks come from `pool`, which is borrowed; null: from the heap.
  explicit ByteArena(BlockPool* pool = nullptr) : pool_(pool) {}

  // `bytes` bytes, not aligned.
  Result<uint8_t*> Allocate(int64_t bytes);

  // Keeps what views show without a copy.
  void Keep(const std::shared_ptr<arrow::Buffer>& buffer);

  void Clear();

 private:
  BlockPool* pool_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<std::shared_ptr<arrow::Buffer>> kept_;
  int64_t held_bytes_ = 0;  // in blocks
  uint8_t* next_ = nullptr;
  uint8_t* end_ = nullptr;
};

}  // namespace fastload
