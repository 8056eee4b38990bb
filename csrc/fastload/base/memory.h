// Memory of batches and of fetched bytes: blocks in size classes, reused.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/status.h"

namespace fastload {

// Every block, and every column in it, begins at a multiple of this: a cache line, and
// the widest vector register.
inline constexpr int64_t kAlignment = 64;

constexpr int64_t RoundUp(int64_t bytes, int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Where the memory of blocks comes from: private memory of this process, or memory that
// other processes map too. Implementations are thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // `bytes` bytes, aligned to kAlignment; nullptr when there are none.
  virtual uint8_t* Map(int64_t bytes) = 0;
  virtual void Unmap(uint8_t* data, int64_t bytes) = 0;
};

std::unique_ptr<MemorySource> MakePrivateMemory();

// `bytes` (more than 0) rounded up to one of eight steps between two powers of two: at
// most 12.5 % is unused, and blocks whose sizes differ a little share a class.
int64_t SizeClass(int64_t bytes);

class Block;

// Lends blocks and takes them back when they die. Thread-safe. Outlived by its blocks
// without harm: they share its state.
class BlockPool {
 public:
  struct Stats {
    int64_t used_bytes = 0;    // in blocks that are alive
    int64_t cached_bytes = 0;  // kept for the next blocks
    int64_t lent_bytes = 0;    // in blocks that the consumer holds
    int64_t mapped_total = 0;  // blocks ever taken from the source
  };

  // Keeps dead blocks for reuse as long as it maps no more than `limit_bytes` in all;
  // blocks that are alive may take it past that.
  BlockPool(std::unique_ptr<MemorySource> source, int64_t limit_bytes);

  Result<std::shared_ptr<Block>> Allocate(int64_t bytes);
  Stats stats() const;

 private:
  friend class Block;
  struct State;
  std::shared_ptr<State> state_;
};

// Owns its memory until it dies; then the memory goes back to the pool.
class Block {
 public:
  Block(std::shared_ptr<BlockPool::State> state, uint8_t* data, int64_t size,
        int64_t capacity);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }
  int64_t capacity() const { return capacity_; }

  // Counts the block as held by the consumer from now on.
  void MarkLent();

 private:
  std::shared_ptr<BlockPool::State> state_;
  uint8_t* data_;
  int64_t size_;
  int64_t capacity_;
  bool lent_ = false;
};

// The bytes [offset, offset + size) of `block` as a buffer that keeps it alive.
std::shared_ptr<arrow::Buffer> BlockSlice(std::shared_ptr<Block> block, int64_t offset,
                                          int64_t size);

}  // namespace fastload
