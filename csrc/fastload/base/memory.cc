#include "fastload/base/memory.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "fastload/base/forks.h"
#include "fastload/base/slabs.h"
#include "fastload/base/spare_pieces.h"

namespace fastload {
namespace {

// More than the address space of a process.
constexpr int64_t kMostBytes = int64_t{1} << 57;

class PrivateMemory final : public MemorySource {
 public:
  uint8_t* Map(int64_t bytes) override { return Slabs::OfProcess().Allocate(bytes); }
  void Unmap(uint8_t* data, int64_t) noexcept override { Slabs::Free(data); }
};

}  // namespace

std::unique_ptr<MemorySource> MakePrivateMemory() {
  return std::make_unique<PrivateMemory>();
}

int64_t SizeClass(int64_t bytes) {
  constexpr int64_t kSmallest = 4096;
  if (bytes <= kSmallest) return kSmallest;
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return RoundUp(bytes, std::max<int64_t>(power / 8, kAlignment));
}

struct BlockPool::State {
  State(std::unique_ptr<MemorySource> source, int64_t limit_bytes)
      : source(std::move(source)), limit_bytes(limit_bytes) {}

  ~State() {
    for (auto piece = spare.TakeLargest(); piece.data; piece = spare.TakeLargest()) {
      source->Unmap(piece.data, piece.capacity);
    }
  }

  // Takes a spare piece, or counts a new one and returns nullptr. Throws std::bad_alloc,
  // and counts nothing, if there is no memory to count the piece.
  uint8_t* Begin(int64_t capacity) {
    std::lock_guard lock(mutex);
    uint8_t* const data = spare.Take(capacity);
    if (data == nullptr) {
      spare.Announce(capacity);
      ++stats.mapped_total;
    }
    stats.used_bytes += capacity;
    return data;
  }

  // Takes a piece of the capacity. Returns nullptr if there is no memory. Throws
  // std::bad_alloc, as Begin does.
  uint8_t* Take(int64_t capacity) {
    uint8_t* const data = Begin(capacity);
    if (data != nullptr) return data;
    MakeRoom(limit_bytes);
    return Map(capacity);
  }

  // Gives back a piece. `lent` tells whether the consumer holds the piece.
  void Give(uint8_t* data, int64_t capacity, bool lent) noexcept {
    if (!made_here.mine()) return;
    {
      std::lock_guard lock(mutex);
      stats.used_bytes -= capacity;
      if (lent) stats.lent_bytes -= capacity;
      if (!drained && stats.used_bytes + spare.bytes() + capacity <= limit_bytes) {
        return spare.Keep({data, capacity});
      }
      spare.Forget(capacity);
    }
    source->Unmap(data, capacity);
  }

  // Counts a piece as gone that has another owner now.
  void Forget(int64_t capacity, bool lent) noexcept {
    if (!made_here.mine()) return;
    std::lock_guard lock(mutex);
    stats.used_bytes -= capacity;
    if (lent) stats.lent_bytes -= capacity;
    spare.Forget(capacity);
  }

  // Frees spare pieces, the largest first, until all pieces fit `most` bytes.
  void MakeRoom(int64_t most) noexcept {
    while (true) {
      SparePieces::Piece piece;
      {
        std::lock_guard lock(mutex);
        if (stats.used_bytes + spare.bytes() > most) piece = spare.TakeLargest();
      }
      if (piece.data == nullptr) return;
      // The source is called without the lock, because the source may wait for a lock of
      // its own.
      source->Unmap(piece.data, piece.capacity);
    }
  }

  // Maps a piece that Begin has counted. Returns nullptr if there is no memory.
  uint8_t* Map(int64_t capacity) {
    uint8_t* data = nullptr;
    try {
      data = source->Map(capacity);
    } catch (const std::bad_alloc&) {
      data = nullptr;
    }
    if (data != nullptr) return data;
    std::lock_guard lock(mutex);
    spare.Forget(capacity);
    stats.used_bytes -= capacity;
    --stats.mapped_total;
    return nullptr;
  }

  const std::unique_ptr<MemorySource> source;
  const int64_t limit_bytes;
  // A child of fork() inherits blocks and perhaps a locked mutex, so it leaves blocks
  // alone that another process has made.
  const MadeHere made_here;
  mutable std::mutex mutex;  // guards the members below
  SparePieces spare;         // dead blocks
  bool drained = false;      // no dead block is kept any more
  Stats stats;               // but for cached_bytes, which `spare` counts
};

BlockPool::BlockPool(std::unique_ptr<MemorySource> source, int64_t limit_bytes)
    : state_(std::make_shared<State>(std::move(source), limit_bytes)) {}

Result<std::shared_ptr<Block>> BlockPool::Allocate(int64_t bytes) {
  // Before sums of sizes overflow.
  if (bytes > kMostBytes) {
    return Status::OutOfMemory("Expected at most ", kMostBytes,
                               " bytes for a batch, got more");
  }
  const int64_t capacity = SizeClass(bytes);
  // The object is made first: if there is no memory for the object, nothing is counted.
  auto block = std::make_shared<Block>(state_, bytes, capacity);
  block->data_ = state_->Take(capacity);
  if (block->data_ == nullptr) {
    return Status::OutOfMemory("Expected ", capacity, " bytes for a batch, got none");
  }
  return block;
}

uint8_t* BlockPool::Take(int64_t bytes) { return state_->Take(SizeClass(bytes)); }

void BlockPool::Give(uint8_t* data, int64_t bytes) noexcept {
  state_->Give(data, SizeClass(bytes), /*lent=*/false);
}

void BlockPool::Drain() noexcept {
  {
    std::lock_guard lock(state_->mutex);
    state_->drained = true;
  }
  state_->MakeRoom(0);
}

BlockPool::Stats BlockPool::stats() const {
  std::lock_guard lock(state_->mutex);
  Stats stats = state_->stats;
  stats.cached_bytes = state_->spare.bytes();
  return stats;
}

Block::Block(std::shared_ptr<BlockPool::State> state, int64_t size, int64_t capacity)
    : state_(std::move(state)), size_(size), capacity_(capacity) {}

Block::~Block() {
  if (data_ == nullptr) return;
  if (surrendered_) {
    state_->Forget(capacity_, lent_);
  } else {
    state_->Give(data_, capacity_, lent_);
  }
}

void Block::MarkLent() {
  std::lock_guard lock(state_->mutex);
  if (!std::exchange(lent_, true)) state_->stats.lent_bytes += capacity_;
}

namespace {

class BlockBuffer final : public arrow::Buffer {
 public:
  BlockBuffer(std::shared_ptr<Block> block, int64_t offset, int64_t size)
      : arrow::Buffer(block->data() + offset, size), block_(std::move(block)) {}

 private:
  std::shared_ptr<Block> block_;
};

}  // namespace

std::shared_ptr<arrow::Buffer> BlockSlice(std::shared_ptr<Block> block, int64_t offset,
                                          int64_t size) {
  return std::make_shared<BlockBuffer>(std::move(block), offset, size);
}

}  // namespace fastload
