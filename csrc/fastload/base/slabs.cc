#include "fastload/base/slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <span>

#include "fastload/base/platform.h"

namespace fastload {
namespace {

constexpr int64_t kPieceAlignment = 64;  // a cache line
constexpr int64_t kHugePage = int64_t{2} << 20;
// From this size on, a piece is a mapping of its own.
constexpr int64_t kLargeBytes = kHugePage;
// Two of the largest small pieces fit a slab.
constexpr int64_t kSlabBytes = 2 * kHugePage;
// Mappings are multiples of the pages of all systems.
constexpr int64_t kPage = int64_t{64} << 10;

#if defined(__SANITIZE_ADDRESS__)
// The sanitizer watches the ends of pieces that come from the heap.
constexpr bool kFromHeap = true;
#else
constexpr bool kFromHeap = false;
#endif

constexpr int64_t RoundTo(int64_t bytes, int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Maps memory that begins at a huge page.
uint8_t* Map(int64_t bytes) noexcept {
  // Map a little more, so that a piece that begins at a huge page can be cut out.
  constexpr int64_t kSlack = kHugePage;
  void* const data = mmap(nullptr, static_cast<size_t>(bytes + kSlack),
                          PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  auto* const start = static_cast<uint8_t*>(data);
  const auto address = reinterpret_cast<int64_t>(start);
  const int64_t before = RoundTo(address, kHugePage) - address;
  if (before > 0) munmap(start, static_cast<size_t>(before));
  if (before < kSlack) {
    munmap(start + before + bytes, static_cast<size_t>(kSlack - before));
  }
  AdviseHugePages(start + before, static_cast<size_t>(bytes));
  return start + before;
}

std::atomic<Slabs*> current{nullptr};

}  // namespace

Slabs& Slabs::OfProcess() {
  Slabs* slabs = current.load(std::memory_order_acquire);
  while (slabs == nullptr || !slabs->made_here_.mine()) {
    auto* const made = new Slabs;
    // Slabs are never destroyed: memory may be given back until the process ends.
    if (current.compare_exchange_strong(slabs, made)) return *made;
    delete made;
  }
  return *slabs;
}

void Slabs::Free(uint8_t* data) noexcept {
  Slabs* const slabs = current.load(std::memory_order_acquire);
  if (slabs != nullptr && slabs->made_here_.mine()) slabs->GiveBack(data);
}

Slabs::~Slabs() {
  ShrinkSpare(0);
  for (const auto& [data, region] : regions_) {
    if (region.from_heap) {
      std::free(data);
    } else {
      munmap(data, static_cast<size_t>(region.bytes));
    }
  }
}

uint8_t* Slabs::Allocate(int64_t bytes) {
  const int64_t rounded = RoundTo(std::max<int64_t>(bytes, 1), kPieceAlignment);
  std::lock_guard lock(mutex_);
  if (rounded < kLargeBytes) {
    return kFromHeap ? AllocateFromHeap(rounded) : AllocateSmall(rounded);
  }
  const auto region = AddRegion(RoundTo(rounded, kPage));
  return region == regions_.end() ? nullptr : region->first;
}

uint8_t* Slabs::AllocateSmall(int64_t bytes) {
  for (auto& [data, region] : regions_) {
    if (!region.free || bytes >= region.too_many) continue;
    const int64_t start = region.free->Allocate(bytes);
    if (start >= 0) {
      ++region.pieces;
      return data + start;
    }
    region.too_many = bytes;
  }
  const auto added = AddRegion(kSlabBytes);
  if (added == regions_.end()) return nullptr;
  Region& region = added->second;
  try {
    region.free.emplace(0, kSlabBytes, kSlabBytes);
    region.too_many = kSlabBytes + 1;
    const int64_t start = region.free->Allocate(bytes);
    ++region.pieces;
    return added->first + start;
  } catch (...) {
    DropRegion(added);
    throw;
  }
}

uint8_t* Slabs::AllocateFromHeap(int64_t bytes) {
  auto* const data = static_cast<uint8_t*>(
      std::aligned_alloc(kPieceAlignment, static_cast<size_t>(bytes)));
  if (data == nullptr) return nullptr;
  try {
    Region& region = regions_.try_emplace(data).first->second;
    region.bytes = bytes;
    region.from_heap = true;
  } catch (...) {
    std::free(data);
    throw;
  }
  return data;
}

Slabs::Regions::iterator Slabs::AddRegion(int64_t bytes) {
  uint8_t* data = TakeSpare(bytes);
  if (data == nullptr) {
    const int64_t over = stats_.mapped_bytes + bytes - Allowed();
    if (over > 0) ShrinkSpare(std::max<int64_t>(stats_.spare_bytes - over, 0));
    data = Map(bytes);
    if (data == nullptr) return regions_.end();
    stats_.mapped_bytes += bytes;
  }
  try {
    const auto region = regions_.try_emplace(data).first;
    region->second.bytes = bytes;
    return region;
  } catch (...) {
    Keep({data, bytes});
    throw;
  }
}

void Slabs::DropRegion(Regions::iterator region) noexcept {
  const Spare spare{region->first, region->second.bytes};
  const bool from_heap = region->second.from_heap;
  regions_.erase(region);
  if (from_heap) return std::free(spare.data);
  Keep(spare);
}

uint8_t* Slabs::TakeSpare(int64_t bytes) noexcept {
  Spare* best = nullptr;
  for (Spare& spare : std::span(spare_).first(spares_)) {
    if (spare.bytes >= bytes && (best == nullptr || spare.bytes < best->bytes)) {
      best = &spare;
    }
  }
  if (best == nullptr) return nullptr;
  const Spare taken = *best;
  *best = spare_[--spares_];
  stats_.spare_bytes -= taken.bytes;
  // The rest stays for another piece.
  if (taken.bytes > bytes) Keep({taken.data + bytes, taken.bytes - bytes});
  return taken.data;
}

void Slabs::Keep(Spare spare) noexcept {
  // Memory that was never touched is no better than new memory.
  if (spare.bytes < kLargeBytes || spares_ == spare_.size() ||
      spare.bytes > kSpareBytes - stats_.spare_bytes || stats_.mapped_bytes > Allowed() ||
      !IsTouched(spare.data)) {
    return Unmap(spare.data, spare.bytes);
  }
  spare_[spares_++] = spare;
  stats_.spare_bytes += spare.bytes;
}

void Slabs::Unmap(uint8_t* data, int64_t bytes) noexcept {
  munmap(data, static_cast<size_t>(bytes));
  stats_.mapped_bytes -= bytes;
}

void Slabs::ShrinkSpare(int64_t bytes) noexcept {
  while (stats_.spare_bytes > bytes) {
    const Spare spare = spare_[--spares_];
    stats_.spare_bytes -= spare.bytes;
    Unmap(spare.data, spare.bytes);
  }
}

void Slabs::GiveBack(uint8_t* data) noexcept {
  if (data == nullptr) return;
  std::lock_guard lock(mutex_);
  auto found = regions_.upper_bound(data);
  if (found != regions_.begin()) {
    --found;
    Region& region = found->second;
    if (data < found->first + region.bytes) {
      if (!region.free) return DropRegion(found);
      region.free->Free(data - found->first);
      region.too_many = kSlabBytes + 1;
      if (--region.pieces == 0) DropRegion(found);
      return;
    }
  }
}

void Slabs::AddBudget(int64_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  budgets_ += bytes;
  ShrinkSpare(
      std::max<int64_t>(Allowed() - (stats_.mapped_bytes - stats_.spare_bytes), 0));
}

Slabs::Stats Slabs::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace fastload
