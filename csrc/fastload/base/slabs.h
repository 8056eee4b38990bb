// The memory of the process that all pools and all working memory come from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "fastload/base/forks.h"
#include "fastload/base/range_allocator.h"

namespace fastload {

// The pieces of memory of this process. Large pieces are mappings of their own. Small
// pieces share slabs of huge pages, because the first touch of a huge page costs less
// than the first touch of its 512 small pages. Freed memory stays mapped up to
// kSpareBytes, so that the next dataset finds memory that was touched before.
// Thread-safe.
class Slabs {
 public:
  // The most bytes of freed memory that stay mapped.
  static constexpr int64_t kSpareBytes = int64_t{64} << 20;

  struct Stats {
    int64_t mapped_bytes = 0;  // bytes of all mappings, spare mappings included
    int64_t spare_bytes = 0;   // bytes of mappings that wait for their next use
  };

  // Returns the slabs of this process. A child of fork() gets slabs of its own, because
  // the mutex of its parent's slabs may be held for ever. Throws std::bad_alloc.
  static Slabs& OfProcess();

  // Gives back a piece. Does nothing for memory that these slabs have not lent, such as
  // memory of the process that this process was forked from. Takes no memory.
  static void Free(uint8_t* data) noexcept;

  Slabs() = default;
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // Returns at least `bytes` bytes with unspecified content, aligned to a cache line and
  // from 2 MiB on to a huge page if the memory is new. Returns nullptr if the system has
  // no memory. Spare memory is unmapped if spare and new memory together would exceed the
  // budgets of the pipelines.
  uint8_t* Allocate(int64_t bytes);

  // Gives back a piece, as Free does.
  void GiveBack(uint8_t* data) noexcept;

  // Adds a budget, or with less than 0 bytes removes one. While there are budgets, spare
  // memory is kept only as far as all mappings fit the sum of the budgets.
  void AddBudget(int64_t bytes) noexcept;

  Stats stats() const;

 private:
  // A mapping that is one piece, a slab of small pieces, or a piece of the heap.
  struct Region {
    int64_t bytes = 0;
    bool from_heap = false;              // in a build for the address sanitizer
    std::optional<RangeAllocator> free;  // of a slab; none: the region is one piece
    int64_t pieces = 0;                  // number of pieces of a slab
    int64_t too_many = 0;                // a slab has no range of so many free bytes
  };
  struct Spare {
    uint8_t* data = nullptr;
    int64_t bytes = 0;
  };
  using Regions = std::map<uint8_t*, Region>;

  // The methods below expect that mutex_ is held.
  uint8_t* AllocateSmall(int64_t bytes);
  uint8_t* AllocateFromHeap(int64_t bytes);
  // Maps memory, or takes spare memory, and adds the region. Returns null without memory.
  Regions::iterator AddRegion(int64_t bytes);
  void DropRegion(Regions::iterator region) noexcept;
  uint8_t* TakeSpare(int64_t bytes) noexcept;
  // Keeps memory for its next use, or unmaps the memory.
  void Keep(Spare spare) noexcept;
  void Unmap(uint8_t* data, int64_t bytes) noexcept;
  void ShrinkSpare(int64_t bytes) noexcept;
  // Returns how many bytes of mappings may be held together with spare memory.
  int64_t Allowed() const { return budgets_ > 0 ? budgets_ : kSpareBytes; }

  const MadeHere made_here_{};
  mutable std::mutex mutex_;  // guards the members below
  Regions regions_;           // by address
  std::array<Spare, 64> spare_;
  size_t spares_ = 0;  // number of spare_ that are in use
  int64_t budgets_ = 0;
  Stats stats_;
};

// The budget of a pipeline, which lives as long as the pipeline.
class SlabBudget {
 public:
  explicit SlabBudget(int64_t bytes) : bytes_(bytes) {
    Slabs::OfProcess().AddBudget(bytes);
  }
  ~SlabBudget() {
    // The slabs of a fork have no budget of the parent's.
    if (made_here_.mine()) Slabs::OfProcess().AddBudget(-bytes_);
  }
  SlabBudget(const SlabBudget&) = delete;
  SlabBudget& operator=(const SlabBudget&) = delete;

 private:
  const MadeHere made_here_{};
  const int64_t bytes_;
};

}  // namespace fastload
