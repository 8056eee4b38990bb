#include "fastload/share/shared_batches.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "fastload/base/range_allocator.h"

namespace fastload {

// A slot goes from kFree to kSent and back to kFree in the sender; between these states,
// the receiver sets kOpened and kReturned. The other members belong to the side that may
// change the state next.
struct alignas(64) SharedSlot {
  enum State : uint32_t { kFree, kSent, kOpened, kReturned };

  std::atomic<uint32_t> state;
  int64_t start;  // offset of the block in the mapping
  int64_t bytes;
  int64_t rows;
  int64_t areas_start;
  int64_t areas;  // number of areas
};

struct SharedHeader {
  static constexpr uint64_t kMagic = 0x3164616F6C6C7466;
  static constexpr int32_t kSlots = 4096;

  uint64_t magic;
  std::atomic<uint32_t> receivers;
  std::array<std::atomic<int64_t>, std::tuple_size_v<BatchSender::Held>> memory;
  int64_t description_start;
  int64_t description_bytes;
  SharedSlot slots[kSlots];  // NOLINT(modernize-avoid-c-arrays)
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

// A mapping with an allocator of its bytes.
class SharedSpace {
 public:
  explicit SharedSpace(std::shared_ptr<SharedMapping> mapping)
      : mapping_(std::move(mapping)),
        ranges_(RoundUp(sizeof(SharedHeader), kAlignment), mapping_->size(),
                kSegmentBytes) {}

  SharedHeader* header() const {
    return std::launder(reinterpret_cast<SharedHeader*>(mapping_->data()));
  }
  const SharedMapping& mapping() const { return *mapping_; }

  // Returns nullptr if no range is large enough.
  uint8_t* Allocate(int64_t bytes) {
    std::lock_guard lock(mutex_);
    const int64_t start = ranges_.Allocate(RoundUp(bytes, kAlignment));
    return start < 0 ? nullptr : mapping_->data() + start;
  }
  void Free(const uint8_t* data) noexcept {
    std::lock_guard lock(mutex_);
    ranges_.Free(data - mapping_->data());
  }
  bool Holds(const uint8_t* data) const {
    return data >= mapping_->data() && data < mapping_->data() + mapping_->size();
  }

 private:
  const std::shared_ptr<SharedMapping> mapping_;
  std::mutex mutex_;  // guards the members below
  RangeAllocator ranges_;
};

namespace {

// Returns a slot whose batch the receiver has opened.
struct GivesBack {
  void operator()(SharedSlot* opened) const {
    opened->state.store(SharedSlot::kReturned, std::memory_order_release);
  }
};

// A source of shared memory. Touched pages stay with the mapping, because a device may
// have locked the pages.
class SharedMemory final : public MemorySource {
 public:
  explicit SharedMemory(std::shared_ptr<SharedSpace> space) : space_(std::move(space)) {}

  uint8_t* Map(int64_t bytes) override {
    uint8_t* data = space_->Allocate(bytes);
    return data != nullptr ? data : private_->Map(bytes);
  }
  void Unmap(uint8_t* data, int64_t bytes) noexcept override {
    space_->Holds(data) ? space_->Free(data) : private_->Unmap(data, bytes);
  }

 private:
  const std::shared_ptr<SharedSpace> space_;
  const std::unique_ptr<MemorySource> private_ = MakePrivateMemory();
};

struct KeptBlock {
  std::shared_ptr<Block> block;
  KeptBlock* next;
};
std::atomic<KeptBlock*> kept_for_ever = nullptr;

void KeepForEver(std::shared_ptr<Block> block) {
  auto* kept = new (std::nothrow) KeptBlock{std::move(block), kept_for_ever};
  if (kept == nullptr) return;
  while (!kept_for_ever.compare_exchange_weak(kept->next, kept)) {
  }
}

}  // namespace

Result<std::shared_ptr<BatchSender>> BatchSender::Make(int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(
      auto mapping,
      SharedMapping::Make(bytes + static_cast<int64_t>(sizeof(SharedHeader))));
  // All bytes are 0, so every slot is free.
  auto* header = new (mapping->data()) SharedHeader();
  header->magic = SharedHeader::kMagic;
  return std::shared_ptr<BatchSender>(
      new BatchSender(std::make_shared<SharedSpace>(std::move(mapping))));
}

BatchSender::BatchSender(std::shared_ptr<SharedSpace> space)
    : space_(std::move(space)), free_(SharedHeader::kSlots) {
  // The first slots are taken first, so that only the first pages are touched.
  std::iota(free_.rbegin(), free_.rend(), 0);
}

BatchSender::~BatchSender() {
  std::lock_guard lock(mutex_);
  ReclaimLocked();
  // A receiver may still read the blocks, so the blocks and their pool live as long as
  // this process.
  for (Sent& sent : sent_) KeepForEver(std::move(sent.block));
}

std::unique_ptr<MemorySource> BatchSender::Memory() const {
  return std::make_unique<SharedMemory>(space_);
}

int32_t BatchSender::Send(std::shared_ptr<Block> block, int64_t rows,
                          std::span<const int64_t> areas) {
  if (!space_->Holds(block->data())) return -1;
  std::lock_guard lock(mutex_);
  ReclaimLocked();
  if (free_.empty()) return -1;
  if (sent_.size() == sent_.capacity()) sent_.reserve(2 * sent_.size() + 1);
  const int32_t number = free_.back();
  SharedSlot& slot = space_->header()->slots[number];
  slot.areas = static_cast<int64_t>(areas.size());
  slot.areas_start = 0;
  if (!areas.empty()) {
    uint8_t* copy = space_->Allocate(static_cast<int64_t>(areas.size_bytes()));
    if (copy == nullptr) return -1;
    std::memcpy(copy, areas.data(), areas.size_bytes());
    slot.areas_start = copy - space_->mapping().data();
  }
  slot.start = block->data() - space_->mapping().data();
  slot.bytes = block->size();
  slot.rows = rows;
  free_.pop_back();
  sent_.push_back({number, std::move(block)});
  slot.state.store(SharedSlot::kSent, std::memory_order_release);
  return number;
}

void BatchSender::Cancel(int32_t slot) {
  space_->header()->slots[slot].state.store(SharedSlot::kReturned,
                                            std::memory_order_release);
}

int64_t BatchSender::HeldBytes() {
  std::lock_guard lock(mutex_);
  ReclaimLocked();
  int64_t bytes = 0;
  for (const Sent& sent : sent_) {
    const SharedSlot& slot = space_->header()->slots[sent.slot];
    if (slot.state.load(std::memory_order_relaxed) == SharedSlot::kOpened) {
      bytes += sent.block->capacity();
    }
  }
  return bytes;
}

void BatchSender::ReclaimLocked() {
  std::erase_if(sent_, [this](const Sent& sent) {
    SharedSlot& slot = space_->header()->slots[sent.slot];
    if (slot.state.load(std::memory_order_acquire) != SharedSlot::kReturned) return false;
    if (slot.areas > 0) {
      space_->Free(space_->mapping().data() + slot.areas_start);
    }
    slot.state.store(SharedSlot::kFree, std::memory_order_relaxed);
    free_.push_back(sent.slot);
    return true;
  });
}

void BatchSender::Report(const Held& memory) {
  for (size_t i = 0; i < memory.size(); ++i) {
    space_->header()->memory[i].store(memory[i], std::memory_order_relaxed);
  }
}

Status BatchSender::Describe(std::string_view description) {
  uint8_t* copy = space_->Allocate(static_cast<int64_t>(description.size()) + 1);
  if (copy == nullptr)
    return Status::OutOfMemory("Expected shared memory for a description, got none");
  std::memcpy(copy, description.data(), description.size());
  space_->header()->description_start = copy - space_->mapping().data();
  space_->header()->description_bytes = static_cast<int64_t>(description.size());
  return Status::OK();
}

bool BatchSender::met() const {
  return space_->header()->receivers.load(std::memory_order_relaxed) > 0;
}

int BatchSender::fd() const { return space_->mapping().fd(); }

ReceivedBatch::ReceivedBatch(std::shared_ptr<BatchReceiver> receiver, SharedSlot* slot,
                             std::span<uint8_t> bytes, int64_t rows,
                             std::span<const int64_t> areas)
    : receiver_(std::move(receiver)),
      slot_(slot),
      bytes_(bytes),
      rows_(rows),
      areas_(areas) {}

ReceivedBatch::~ReceivedBatch() {
  if (!made_here_.mine()) return;
  GivesBack()(slot_);
}

std::span<uint8_t> ReceivedBatch::segment() const {
  const SharedMapping& mapping = receiver_->mapping();
  const int64_t first = data() - mapping.data();
  const int64_t number = first / kSegmentBytes;
  if ((first + size() - 1) / kSegmentBytes > number) return {};
  const int64_t start = number * kSegmentBytes;
  const int64_t bytes = std::min(kSegmentBytes, mapping.size() - start);
  return {mapping.data() + start, static_cast<size_t>(bytes)};
}

Result<std::shared_ptr<BatchReceiver>> BatchReceiver::Open(int fd) {
  ARROW_ASSIGN_OR_RAISE(auto mapping, SharedMapping::Open(fd));
  std::shared_ptr<BatchReceiver> receiver(new BatchReceiver(std::move(mapping)));
  const bool whole = receiver->Holds(0, sizeof(SharedHeader), 1);
  if (!whole || receiver->header()->magic != SharedHeader::kMagic) {
    return Status::Invalid("Expected the shared memory of batches, got another file");
  }
  receiver->header()->receivers.fetch_add(1, std::memory_order_relaxed);
  return receiver;
}

Result<std::unique_ptr<ReceivedBatch>> BatchReceiver::Take(int32_t number) {
  if (number < 0 || number >= SharedHeader::kSlots) {
    return Status::Invalid("Expected a slot of shared memory, got ", number);
  }
  SharedSlot& slot = header()->slots[number];
  uint32_t state = SharedSlot::kSent;
  if (!slot.state.compare_exchange_strong(state, SharedSlot::kOpened,
                                          std::memory_order_acquire)) {
    return Status::Invalid(
        "Expected a batch that is received once, got a batch received before");
  }
  std::unique_ptr<SharedSlot, GivesBack> opened(&slot);
  // Each value is read once, because the other process may still write to the slot.
  const int64_t start = slot.start;
  const int64_t bytes = slot.bytes;
  const int64_t areas_start = slot.areas_start;
  const int64_t areas = slot.areas;
  if (!Holds(start, bytes, 1) || !Holds(areas_start, areas, sizeof(int64_t))) {
    return Status::Invalid(
        "Expected a batch in shared memory, got one outside the mapping");
  }
  uint8_t* const data = mapping_->data();
  auto batch = std::make_unique<ReceivedBatch>(
      shared_from_this(), &slot, std::span(data + start, static_cast<size_t>(bytes)),
      slot.rows,
      std::span(reinterpret_cast<const int64_t*>(data + areas_start),
                static_cast<size_t>(areas)));
  [[maybe_unused]] auto* given = opened.release();  // the batch gives the slot back
  return batch;
}

std::string_view BatchReceiver::description() const {
  const int64_t start = header()->description_start;
  const int64_t bytes = header()->description_bytes;
  if (!Holds(start, bytes, 1)) return {};
  return {reinterpret_cast<const char*>(mapping_->data() + start),
          static_cast<size_t>(bytes)};
}

BatchSender::Held BatchReceiver::memory() const {
  BatchSender::Held memory;
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i] = header()->memory[i].load(std::memory_order_relaxed);
  }
  return memory;
}

SharedHeader* BatchReceiver::header() const {
  return std::launder(reinterpret_cast<SharedHeader*>(mapping_->data()));
}

bool BatchReceiver::Holds(int64_t start, int64_t items, int64_t item_bytes) const {
  const int64_t size = mapping_->size();
  if (start < 0 || start > size || start % item_bytes != 0) return false;
  return items >= 0 && items <= (size - start) / item_bytes;
}

}  // namespace fastload
