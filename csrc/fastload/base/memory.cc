#include "fastload/base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "fastload/base/forks.h"
#include "fastload/base/platform.h"
#include "fastload/base/spare_pieces.h"

namespace fastload {
namespace {

// From this size on, a block is a mapping of its own, so that freeing the block gives its
// memory back to the system at once. Below this size the heap is cheaper and saves
// mappings.
constexpr int64_t kMapBytes = int64_t{1} << 20;
constexpr int64_t kHugePage = int64_t{2} << 20;

// Allocates from the heap, aligned to kAlignment. std::aligned_alloc of glibc before 2.38
// needs a larger piece than the piece that was freed before, so freeing and reallocating
// beside long-lived small objects makes the heap grow.
uint8_t* AllocateAligned(int64_t bytes) {
  auto* piece =
      static_cast<uint8_t*>(std::malloc(static_cast<size_t>(bytes + kAlignment)));
  if (piece == nullptr) return nullptr;
  const auto skipped = kAlignment - reinterpret_cast<int64_t>(piece) % kAlignment;
  uint8_t* const data = piece + skipped;
  data[-1] = static_cast<uint8_t>(skipped);
  return data;
}

void FreeAligned(uint8_t* data) { std::free(data - data[-1]); }

class PrivateMemory final : public MemorySource {
 public:
  uint8_t* Map(int64_t bytes) override {
    if (bytes < kMapBytes) return AllocateAligned(bytes);
    // Map a little more, so that a piece that begins at a huge page can be cut out.
    const int64_t slack = bytes < kHugePage ? 0 : kHugePage;
    void* data = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    auto* start = static_cast<uint8_t*>(data);
    if (slack == 0) return start;
    const auto address = reinterpret_cast<int64_t>(start);
    const int64_t before = RoundUp(address, kHugePage) - address;
    if (before > 0) munmap(start, static_cast<size_t>(before));
    if (before < slack) {
      munmap(start + before + bytes, static_cast<size_t>(slack - before));
    }
    // Columns are written one after another, each across the whole block: huge pages save
    // most of the address translations.
    AdviseHugePages(start + before, static_cast<size_t>(bytes));
    return start + before;
  }

  void Unmap(uint8_t* data, int64_t bytes) noexcept override {
    if (bytes < kMapBytes) {
      FreeAligned(data);
    } else {
      munmap(data, static_cast<size_t>(bytes));
    }
  }
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

  // Frees spare pieces, the largest first, until all pieces fit the limit.
  void MakeRoom() noexcept {
    while (true) {
      SparePieces::Piece piece;
      {
        std::lock_guard lock(mutex);
        if (stats.used_bytes + spare.bytes() > limit_bytes) piece = spare.TakeLargest();
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
  Stats stats;               // but for cached_bytes, which `spare` counts
};

BlockPool::BlockPool(std::unique_ptr<MemorySource> source, int64_t limit_bytes)
    : state_(std::make_shared<State>(std::move(source), limit_bytes)) {}

Result<std::shared_ptr<Block>> BlockPool::Allocate(int64_t bytes) {
  const int64_t capacity = SizeClass(bytes);
  // The object is made first: if there is no memory for the object, nothing is counted.
  auto block = std::make_shared<Block>(state_, bytes, capacity);
  block->data_ = state_->Begin(capacity);
  if (block->data_ == nullptr) {
    state_->MakeRoom();
    block->data_ = state_->Map(capacity);
  }
  if (block->data_ == nullptr) {
    return Status::OutOfMemory("Expected ", capacity, " bytes for a batch, got none");
  }
  return block;
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
  if (data_ == nullptr || !state_->made_here.mine()) return;
  {
    std::lock_guard lock(state_->mutex);
    BlockPool::Stats& stats = state_->stats;
    stats.used_bytes -= capacity_;
    if (lent_) stats.lent_bytes -= capacity_;
    if (stats.used_bytes + state_->spare.bytes() + capacity_ <= state_->limit_bytes) {
      state_->spare.Keep({data_, capacity_});
      return;
    }
    state_->spare.Forget(capacity_);
  }
  state_->source->Unmap(data_, capacity_);
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
