// The memory of pages that stay from one pass to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/memory.h"
#include "fastload/base/range_allocator.h"

namespace fastload {

// Pieces of memory within a limit. Memory is mapped in slabs, which are unmapped once
// they are empty, so held bytes never exceed the limit. Bytes are reserved before they
// are allocated, so that pieces can come one by one. Thread-safe.
class KeptMemory : public std::enable_shared_from_this<KeptMemory> {
 public:
  explicit KeptMemory(int64_t limit_bytes);
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // Reserves `bytes` bytes. Returns false, and reserves nothing, if the limit leaves no
  // room.
  bool Reserve(int64_t bytes);
  // Gives up reserved bytes.
  void Release(int64_t bytes) noexcept;

  // Returns `bytes` (more than 0) writable bytes aligned to kAlignment, out of reserved
  // bytes: of those it takes SizeOf(bytes). Returns null, and takes none, if no slab has
  // so many free bytes at one place and there is no room or memory for another slab. The
  // buffer keeps this object alive, and gives its bytes back when it dies.
  std::shared_ptr<arrow::MutableBuffer> Allocate(int64_t bytes);
  static int64_t SizeOf(int64_t bytes) { return RoundUp(bytes, kAlignment); }

  // Counts `bytes` bytes of other memory against the limit. Returns false, and counts
  // nothing, if the limit leaves no room.
  bool Charge(int64_t bytes);
  void Discharge(int64_t bytes) noexcept;

  // Sets the limit. Pieces that are alive may exceed a lower limit until they die.
  void SetLimit(int64_t limit_bytes);

  int64_t limit_bytes() const;
  // Returns the bytes that count against the limit: slabs, charged bytes, and the
  // reserved bytes for which slabs have no room.
  int64_t held_bytes() const;

 private:
  class Piece;
  struct Slab {
    Slab(uint8_t* data, int64_t bytes)
        : data(data), bytes(bytes), free(0, bytes, bytes) {}

    uint8_t* data;
    int64_t bytes;
    RangeAllocator free;
    int64_t pieces = 0;
  };

  // Maps a slab with room for a piece of `bytes` bytes. Returns null without room. mutex_
  // is held.
  Slab* AddSlab(int64_t bytes);
  // Unmaps the slab if the slab is empty. mutex_ is held.
  void DropEmpty(const Slab* slab) noexcept;
  void Free(Slab* slab, int64_t start, int64_t size) noexcept;
  // Returns the bytes that would count against the limit with `more` reserved bytes.
  // mutex_ is held.
  int64_t HeldWith(int64_t more) const;

  const std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;  // guards the members below
  int64_t limit_bytes_;
  int64_t fixed_bytes_ = 0;     // bytes of slabs, and charged bytes
  int64_t free_bytes_ = 0;      // bytes of slabs that no piece has
  int64_t reserved_bytes_ = 0;  // bytes that are reserved, and not allocated yet
  std::vector<std::unique_ptr<Slab>> slabs_;
};

}  // namespace fastload
