// An arrow::MemoryPool over a BlockPool, for Arrow's builders, decompressed pages and
// dictionaries.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "arrow/memory_pool.h"
#include "fastload/base/memory.h"

namespace fastload {

// An arrow::MemoryPool that takes pieces from a BlockPool, which reuses freed pieces.
// Decoding one column chunk after another then takes no memory from the system, which
// would hand out the memory page by page and zeroed. Thread-safe. The buffers must die
// before the pool.
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

  int64_t bytes_allocated() const override { return bytes_; }
  int64_t max_memory() const override { return -1; }  // not counted
  int64_t total_bytes_allocated() const override { return total_bytes_; }
  int64_t num_allocations() const override { return allocations_; }
  std::string backend_name() const override { return "blocks"; }

 private:
  BlockPool* const pool_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> total_bytes_{0};
  std::atomic<int64_t> allocations_{0};
};

}  // namespace fastload
