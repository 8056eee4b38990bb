// Memory of batches and of fetched bytes: blocks in size classes, which are reused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "arrow/buffer.h"
#include "fastload/base/status.h"

namespace fastload {

// The alignment of every block and of every column in a block: a cache line, which is
// also the widest vector register.
inline constexpr int64_t kAlignment = 64;

constexpr int64_t RoundUp(int64_t bytes, int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// A source of memory for blocks: private memory of this process, or memory that other
// processes map too. Implementations are thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Returns `bytes` bytes aligned to kAlignment, or nullptr if the source has no more
  // memory. Throws only std::bad_alloc, which means the same.
  virtual uint8_t* Map(int64_t bytes) = 0;
  // Runs in destructors, so it takes no memory.
  virtual void Unmap(uint8_t* data, int64_t bytes) noexcept = 0;
};

std::unique_ptr<MemorySource> MakePrivateMemory();

// Returns `bytes` (more than 0) rounded up to one of eight steps between two powers of
// two. At most 12.5 % of a block is unused, and blocks of slightly different sizes share
// a class.
int64_t SizeClass(int64_t bytes);

class Block;

// A pool that lends blocks, and takes each block back when the block dies. Thread-safe.
// Blocks may outlive the pool, because they share the pool's state.
class BlockPool {
 public:
  struct Stats {
    int64_t used_bytes = 0;    // bytes in blocks that are alive
    int64_t cached_bytes = 0;  // bytes kept for the next blocks
    int64_t lent_bytes = 0;    // bytes in blocks that the consumer holds
    int64_t mapped_total = 0;  // number of blocks ever taken from the source
  };

  // Keeps dead blocks for reuse as long as the pool maps no more than `limit_bytes` bytes
  // in all. Blocks that are alive may exceed the limit.
  BlockPool(std::unique_ptr<MemorySource> source, int64_t limit_bytes);

  // Returns a block, or an OutOfMemory status. Throws std::bad_alloc, and counts nothing,
  // if there is no memory for the object or for the status.
  Result<std::shared_ptr<Block>> Allocate(int64_t bytes);

  // Returns a piece of memory that no Block owns, or nullptr if there is no memory.
  // Throws std::bad_alloc, as Allocate does. The caller gives the piece back while the
  // pool lives.
  uint8_t* Take(int64_t bytes);
  // Gives back a piece of `bytes` bytes, or of as many as are in the same size class.
  void Give(uint8_t* data, int64_t bytes) noexcept;

  // Frees all dead blocks, and keeps none from now on.
  void Drain() noexcept;

  Stats stats() const;

 private:
  friend class Block;
  struct State;
  std::shared_ptr<State> state_;
};

// A block of memory. The destructor gives the memory back to the pool.
class Block {
 public:
  // Makes a block without memory, which the pool provides.
  Block(std::shared_ptr<BlockPool::State> state, int64_t size, int64_t capacity);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }
  int64_t capacity() const { return capacity_; }

  // Counts the block from now on as held by the consumer.
  void MarkLent();

  // Leaves the memory to another owner, which may free the memory while the block lives:
  // the block no longer gives the memory back.
  void Surrender() { surrendered_ = true; }
  bool surrendered() const { return surrendered_; }

 private:
  friend class BlockPool;

  std::shared_ptr<BlockPool::State> state_;
  uint8_t* data_ = nullptr;  // null: the pool had no memory
  int64_t size_;
  int64_t capacity_;
  bool lent_ = false;
  bool surrendered_ = false;
};

// Returns the bytes [offset, offset + size) of `block` as a buffer that keeps the block
// alive.
std::shared_ptr<arrow::Buffer> BlockSlice(std::shared_ptr<Block> block, int64_t offset,
                                          int64_t size);

}  // namespace fastload
