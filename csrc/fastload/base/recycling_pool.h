// An arrow::MemoryPool that reuses memory, for libparquet's decompressed pages and for
// dictionaries.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "arrow/memory_pool.h"
#include "fastload/base/spare_pieces.h"

namespace fastload {

// A pool that keeps freed memory for the next allocation of the same size class. Decoding
// one column chunk after another then takes no memory from the system, which would hand
// out the memory page by page and zeroed. Thread-safe.
class RecyclingPool final : public arrow::MemoryPool {
 public:
  // Keeps at most `limit_bytes` bytes. Memory comes from `base`, which is borrowed.
  RecyclingPool(arrow::MemoryPool* base, int64_t limit_bytes);
  ~RecyclingPool() override;

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override;
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override;

  int64_t bytes_allocated() const override { return base_->bytes_allocated(); }
  int64_t max_memory() const override { return base_->max_memory(); }
  int64_t total_bytes_allocated() const override {
    return base_->total_bytes_allocated();
  }
  int64_t num_allocations() const override { return base_->num_allocations(); }
  std::string backend_name() const override { return base_->backend_name(); }

 private:
  arrow::MemoryPool* const base_;
  const int64_t limit_bytes_;
  std::mutex mutex_;   // guards the members below
  SparePieces spare_;  // freed memory
};

}  // namespace fastload
