// Batches that go to another process without a copy: their blocks are in shared memory,
// and only the number of a slot, which describes a block, is sent.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/base/forks.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"
#include "fastload/share/shared_mapping.h"

namespace fastload {

// The size of a segment of the mapping. A block is inside one segment unless it is larger
// than a segment.
inline constexpr int64_t kSegmentBytes = int64_t{64} << 20;

struct SharedHeader;
struct SharedSlot;
class SharedSpace;

// The sending side, in the process that makes batches. Thread-safe.
class BatchSender {
 public:
  // Makes a sender over a new mapping of at most `bytes` bytes.
  static Result<std::shared_ptr<BatchSender>> Make(int64_t bytes);
  // Leaves sent blocks to the receivers that hold them.
  ~BatchSender();
  BatchSender(const BatchSender&) = delete;
  BatchSender& operator=(const BatchSender&) = delete;

  // Returns a source of blocks that can be sent; once the mapping is full, the source
  // returns private blocks, which can't be sent.
  std::unique_ptr<MemorySource> Memory() const;

  // Keeps the block until the receiver returns the block. Returns the number of the
  // block's slot, or -1 if the block can't be sent or all slots are taken.
  int32_t Send(std::shared_ptr<Block> block, int64_t rows,
               std::span<const int64_t> areas);

  // Takes back a block whose slot number was never passed on.
  void Cancel(int32_t slot);

  // Takes back returned blocks. Returns the bytes of blocks that the receiver has taken
  // and not returned.
  int64_t HeldBytes();

  // Bytes of memory that the process holds, by stage, and the limit and the uses of kept
  // pages, for receivers to read.
  using Held = std::array<int64_t, 7>;
  void Report(const Held& memory);

  // Sets bytes that every receiver may read. Must be called once, before any Send.
  Status Describe(std::string_view description);

  // Returns true if a receiver has opened the mapping.
  bool met() const;
  int fd() const;

 private:
  explicit BatchSender(std::shared_ptr<SharedSpace> space);
  void ReclaimLocked();

  const std::shared_ptr<SharedSpace> space_;
  std::mutex mutex_;  // guards the members below
  struct Sent {
    int32_t slot;
    std::shared_ptr<Block> block;
  };
  std::vector<Sent> sent_;
  std::vector<int32_t> free_;
};

class BatchReceiver;

// A batch of another process. The destructor returns the batch, in the process that took
// it.
class ReceivedBatch {
 public:
  ReceivedBatch(std::shared_ptr<BatchReceiver> receiver, SharedSlot* slot,
                std::span<uint8_t> bytes, int64_t rows, std::span<const int64_t> areas);
  ~ReceivedBatch();
  ReceivedBatch(const ReceivedBatch&) = delete;
  ReceivedBatch& operator=(const ReceivedBatch&) = delete;

  uint8_t* data() const { return bytes_.data(); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t rows() const { return rows_; }
  std::span<const int64_t> areas() const { return areas_; }
  // Returns the segment of the mapping that contains the batch, for callers that lock
  // memory for a device; empty if the batch is larger than a segment.
  std::span<uint8_t> segment() const;
  const std::shared_ptr<BatchReceiver>& receiver() const { return receiver_; }

 private:
  const std::shared_ptr<BatchReceiver> receiver_;
  SharedSlot* const slot_;
  const std::span<uint8_t> bytes_;
  const int64_t rows_;
  const std::span<const int64_t> areas_;
  const MadeHere made_here_;
};

// The receiving side, in the process that uses batches. Thread-safe.
class BatchReceiver : public std::enable_shared_from_this<BatchReceiver> {
 public:
  // Opens the mapping of a sender; `fd` remains the caller's.
  static Result<std::shared_ptr<BatchReceiver>> Open(int fd);

  // Returns the batch of a slot, which can be taken once. Returns an error if the batch
  // is not in the mapping.
  Result<std::unique_ptr<ReceivedBatch>> Take(int32_t slot);
  std::string_view description() const;
  // Returns what the sender reported last.
  BatchSender::Held memory() const;
  const SharedMapping& mapping() const { return *mapping_; }

 private:
  explicit BatchReceiver(std::shared_ptr<SharedMapping> mapping)
      : mapping_(std::move(mapping)) {}
  SharedHeader* header() const;
  // Returns true if the mapping contains `items` items from `start` on, aligned to their
  // size.
  bool Holds(int64_t start, int64_t items, int64_t item_bytes) const;

  const std::shared_ptr<SharedMapping> mapping_;
};

}  // namespace fastload
