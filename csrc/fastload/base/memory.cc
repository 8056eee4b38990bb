#include "fastload/base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "fastload/base/platform.h"

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

  void Unmap(uint8_t* data, int64_t bytes) override {
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
    for (auto& [capacity, blocks] : free) {
      for (uint8_t* data : blocks) source->Unmap(data, capacity);
    }
  }

  // Removes cached blocks, the largest first, until `bytes` more bytes fit the limit.
  // Returns the removed blocks, which the caller unmaps.
  std::vector<std::pair<uint8_t*, int64_t>> MakeRoom(int64_t bytes) {
    std::vector<std::pair<uint8_t*, int64_t>> gone;
    while (stats.used_bytes + stats.cached_bytes + bytes > limit_bytes && !free.empty()) {
      auto last = std::prev(free.end());
      gone.emplace_back(last->second.back(), last->first);
      stats.cached_bytes -= last->first;
      last->second.pop_back();
      if (last->second.empty()) free.erase(last);
    }
    return gone;
  }

  const std::unique_ptr<MemorySource> source;
  const int64_t limit_bytes;
  // A child of fork() inherits blocks and perhaps a locked mutex, so blocks of another
  // process's pool are left alone.
  const pid_t owner = getpid();
  mutable std::mutex mutex;                       // guards the members below
  std::map<int64_t, std::vector<uint8_t*>> free;  // dead blocks by capacity
  Stats stats;
};

BlockPool::BlockPool(std::unique_ptr<MemorySource> source, int64_t limit_bytes)
    : state_(std::make_shared<State>(std::move(source), limit_bytes)) {}

Result<std::shared_ptr<Block>> BlockPool::Allocate(int64_t bytes) {
  const int64_t capacity = SizeClass(bytes);
  uint8_t* data = nullptr;
  std::vector<std::pair<uint8_t*, int64_t>> gone;
  {
    std::lock_guard lock(state_->mutex);
    auto found = state_->free.find(capacity);
    if (found != state_->free.end()) {
      data = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) state_->free.erase(found);
      state_->stats.cached_bytes -= capacity;
    } else {
      gone = state_->MakeRoom(capacity);
      ++state_->stats.mapped_total;
    }
    state_->stats.used_bytes += capacity;
  }
  // The source is called without the lock, because the source may wait for a lock of its
  // own.
  for (const auto& [block, block_bytes] : gone) state_->source->Unmap(block, block_bytes);
  if (data == nullptr) data = state_->source->Map(capacity);
  if (data == nullptr) {
    std::lock_guard lock(state_->mutex);
    state_->stats.used_bytes -= capacity;
    --state_->stats.mapped_total;
    return Status::OutOfMemory("Expected ", capacity, " bytes for a batch, got none");
  }
  return std::make_shared<Block>(state_, data, bytes, capacity);
}

BlockPool::Stats BlockPool::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

Block::Block(std::shared_ptr<BlockPool::State> state, uint8_t* data, int64_t size,
             int64_t capacity)
    : state_(std::move(state)), data_(data), size_(size), capacity_(capacity) {}

Block::~Block() {
  if (getpid() != state_->owner) return;
  {
    std::lock_guard lock(state_->mutex);
    BlockPool::Stats& stats = state_->stats;
    stats.used_bytes -= capacity_;
    if (lent_) stats.lent_bytes -= capacity_;
    if (stats.used_bytes + stats.cached_bytes + capacity_ <= state_->limit_bytes) {
      state_->free[capacity_].push_back(data_);
      stats.cached_bytes += capacity_;
      return;
    }
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
