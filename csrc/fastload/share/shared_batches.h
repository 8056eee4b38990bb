// Batches that go to another process without a copy: their blocks lie in shared memory,
// and what crosses is the number of a slot that says where.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/base/memory.h"
#include "fastload/base/status.h"
#include "fastload/share/shared_mapping.h"

namespace fastload {

// Blocks lie in one such stretch of the mapping each, unless they are larger.
inline constexpr int64_t kSegmentBytes = int64_t{64} << 20;

struct SharedHeader;
struct SharedSlot;
class SharedSpace;

// The side of the process that makes batches. Thread-safe.
class BatchSender {
 public:
  // Over a new mapping of at most `bytes` bytes.
  static Result<std::shared_ptr<BatchSender>> Make(int64_t bytes);
  // Leaves blocks that were sent to whoever has them.
  ~BatchSender();
  BatchSender(const BatchSender&) = delete;
  BatchSender& operator=(const BatchSender&) = delete;

  // Blocks that can be sent; once the mapping is full, others that can't.
  std::unique_ptr<MemorySource> Memory() const;

  // Keeps the block until the receiver has done with it. The number of its slot; -1 if
  // the block can't be sent or all slots are taken.
  int32_t Send(std::shared_ptr<Block> block, int64_t rows,
               std::span<const int64_t> areas);

  // Takes back a block that nobody was told of.
  void Cancel(int32_t slot);

  // Bytes of blocks that the receiver took and has not given back. Takes back what it
  // has.
  int64_t HeldBytes();

  // Bytes of memory that this process holds, by stage, for receivers to see.
  using Held = std::array<int64_t, 3>;
  void Report(const Held& memory);

  // Bytes that every receiver may read. Once, before anything is sent.
  Status Describe(std::string_view description);

  // Whether a receiver has the mapping.
  bool met() const;
  int fd() const;

 private:
  explicit BatchSender(std::shared_ptr<SharedSpace> space);
  void ReclaimLocked();

  const std::shared_ptr<SharedSpace> space_;
  std::mutex mutex_;
  struct Sent {
    int32_t slot;
    std::shared_ptr<Block> block;
  };
  std::vector<Sent> sent_;
  std::vector<int32_t> free_;
};

class BatchReceiver;

// A batch of another process; given back when it dies, in the process that took it.
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
  // The bytes of the mapping among which it lies, for whoever locks memory for a device;
  // empty if it is larger than that.
  std::span<uint8_t> segment() const;
  const std::shared_ptr<BatchReceiver>& receiver() const { return receiver_; }

 private:
  const std::shared_ptr<BatchReceiver> receiver_;
  SharedSlot* const slot_;
  const std::span<uint8_t> bytes_;
  const int64_t rows_;
  const std::span<const int64_t> areas_;
  const pid_t owner_ = getpid();
};

// The side of the process that uses them. Thread-safe.
class BatchReceiver : public std::enable_shared_from_this<BatchReceiver> {
 public:
  // `fd` is that of a sender, and stays the caller's.
  static Result<std::shared_ptr<BatchReceiver>> Open(int fd);

  // The batch of a slot, which can be taken once. An error if it is not in the mapping.
  Result<std::unique_ptr<ReceivedBatch>> Take(int32_t slot);
  std::string_view description() const;
  // What the sender reported last.
  BatchSender::Held memory() const;
  const SharedMapping& mapping() const { return *mapping_; }

 private:
  explicit BatchReceiver(std::shared_ptr<SharedMapping> mapping)
      : mapping_(std::move(mapping)) {}
  SharedHeader* header() const;
  // Whether so many items lie in the mapping, aligned to their size.
  bool Holds(int64_t start, int64_t items, int64_t item_bytes) const;

  const std::shared_ptr<SharedMapping> mapping_;
};

}  // namespace fastload
