#include "fastload/decode/pages/kept_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace fastload {
namespace {

// Large enough for huge pages and for few mappings; small enough that a slab in use for
// one piece alone wastes little.
constexpr int64_t kMostSlabBytes = int64_t{32} << 20;
// The first slabs are small, so that most of what is mapped is touched, and what a closed
// dataset leaves serves the next dataset as it is.
constexpr int64_t kFirstSlabBytes = int64_t{4} << 20;
// A small limit is divided into this many slabs.
constexpr int64_t kLeastSlabs = 8;
// Slabs are multiples of the pages of all systems.
constexpr int64_t kPage = int64_t{64} << 10;

}  // namespace

class KeptMemory::Piece final : public arrow::MutableBuffer {
 public:
  Piece(std::shared_ptr<KeptMemory> memory, Slab* slab, int64_t start, int64_t bytes)
      : arrow::MutableBuffer(slab->data + start, bytes),
        memory_(std::move(memory)),
        slab_(slab),
        start_(start) {}
  ~Piece() override { memory_->Free(slab_, start_, SizeOf(size())); }

 private:
  const std::shared_ptr<KeptMemory> memory_;
  Slab* const slab_;
  const int64_t start_;
};

KeptMemory::KeptMemory(int64_t limit_bytes)
    : source_(MakePrivateMemory()), limit_bytes_(limit_bytes) {}

KeptMemory::~KeptMemory() {
  for (const auto& slab : slabs_) source_->Unmap(slab->data, slab->bytes);
}

int64_t KeptMemory::HeldWith(int64_t more) const {
  return fixed_bytes_ + std::max<int64_t>(reserved_bytes_ + more - free_bytes_, 0);
}

bool KeptMemory::Reserve(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > limit_bytes_ || HeldWith(bytes) > limit_bytes_) return false;
  reserved_bytes_ += bytes;
  return true;
}

void KeptMemory::Release(int64_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  reserved_bytes_ -= bytes;
}

std::shared_ptr<arrow::MutableBuffer> KeptMemory::Allocate(int64_t bytes) {
  const int64_t size = SizeOf(bytes);
  Slab* slab = nullptr;
  int64_t start = -1;
  {
    std::lock_guard lock(mutex_);
    // Newest first: earlier slabs are mostly full.
    for (auto it = slabs_.rbegin(); it != slabs_.rend() && start < 0; ++it) {
      slab = it->get();
      start = slab->free.Allocate(size);
    }
    if (start < 0) {
      slab = AddSlab(size);
      if (slab == nullptr) return nullptr;
      start = slab->free.Allocate(size);
    }
    ++slab->pieces;
    free_bytes_ -= size;
    reserved_bytes_ -= size;
  }
  try {
    return std::make_shared<Piece>(shared_from_this(), slab, start, bytes);
  } catch (const std::bad_alloc&) {
    Free(slab, start, size);
    std::lock_guard lock(mutex_);
    reserved_bytes_ += size;
    throw;
  }
}

KeptMemory::Slab* KeptMemory::AddSlab(int64_t bytes) {
  // The slab backs bytes that are reserved, so only what is fixed takes room from it.
  const int64_t room = limit_bytes_ - fixed_bytes_;
  const int64_t usual =
      std::min({std::clamp(fixed_bytes_ / 2, kFirstSlabBytes, kMostSlabBytes),
                limit_bytes_ / kLeastSlabs, room});
  const int64_t wanted = std::max(usual / kPage * kPage, RoundUp(bytes, kPage));
  if (wanted > room) return nullptr;
  slabs_.reserve(slabs_.size() + 1);
  uint8_t* const data = source_->Map(wanted);
  if (data == nullptr) return nullptr;
  try {
    slabs_.push_back(std::make_unique<Slab>(data, wanted));
  } catch (const std::bad_alloc&) {
    source_->Unmap(data, wanted);
    return nullptr;
  }
  fixed_bytes_ += wanted;
  free_bytes_ += wanted;
  return slabs_.back().get();
}

void KeptMemory::DropEmpty(const Slab* slab) noexcept {
  if (slab->pieces > 0) return;
  fixed_bytes_ -= slab->bytes;
  free_bytes_ -= slab->bytes;
  source_->Unmap(slab->data, slab->bytes);
  std::erase_if(slabs_, [slab](const auto& one) { return one.get() == slab; });
}

void KeptMemory::Free(Slab* slab, int64_t start, int64_t size) noexcept {
  std::lock_guard lock(mutex_);
  slab->free.Free(start);
  --slab->pieces;
  free_bytes_ += size;
  DropEmpty(slab);
}

bool KeptMemory::Charge(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > limit_bytes_ - HeldWith(0)) return false;
  fixed_bytes_ += bytes;
  return true;
}

void KeptMemory::Discharge(int64_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  fixed_bytes_ -= bytes;
}

void KeptMemory::SetLimit(int64_t limit_bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = std::max<int64_t>(limit_bytes, 0);
}

int64_t KeptMemory::limit_bytes() const {
  std::lock_guard lock(mutex_);
  return limit_bytes_;
}

int64_t KeptMemory::held_bytes() const {
  std::lock_guard lock(mutex_);
  return HeldWith(0);
}

}  // namespace fastload
