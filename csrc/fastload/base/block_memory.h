// An arrow::MemoryPool over a BlockPool, so that Arrow's builders write into blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrow/memory_pool.h"
#include "fastload/base/memory.h"

namespace fastload {

// An arrow::MemoryPool for the few buffers of one builder. Not thread-safe. The buffers
// must die before the pool.
class BlockMemory final : public arrow::MemoryPool {
 public:
  // Borrows `pool`.
  explicit BlockMemory(BlockPool* pool) : pool_(pool) {}

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override;
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override;

  int64_t bytes_allocated() const override;
  int64_t max_memory() const override { return max_bytes_; }
  int64_t total_bytes_allocated() const override { return total_bytes_; }
  int64_t num_allocations() const override { return allocations_; }
  std::string backend_name() const override { return "blocks"; }

 private:
  arrow::Status AllocateBlock(int64_t size, uint8_t** out);

  BlockPool* const pool_;
  std::vector<std::shared_ptr<Block>> blocks_;
  int64_t max_bytes_ = 0;
  int64_t total_bytes_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace fastload
