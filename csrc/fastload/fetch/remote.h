// Reads of remote files: the core requests bytes, and a client brings the bytes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/byte_range.h"
#include "fastload/base/platform.h"
#include "fastload/base/status.h"
#include "fastload/fetch/range_cache.h"
#include "fastload/source/file.h"

namespace fastload {

using Cancelled = std::shared_ptr<const std::atomic<bool>>;

// A range of a file that is requested once for all waiters. Thread-safe.
class RemoteRead {
 public:
  RemoteRead(int32_t file, ByteRange range) : file_(file), range_(range) {}

  int32_t file() const { return file_; }
  const ByteRange& range() const { return range_; }

  // Calls `then` once, on the client's thread, when the bytes have arrived or failed.
  // Returns false, without a call, if the bytes have arrived or failed already. `then`
  // must not throw: what it throws is lost, and only the other callers of Then go on.
  bool Then(std::function<void()> then);

  // Returns the bytes or the failure, after Then has called `then` or returned false.
  Result<std::shared_ptr<arrow::Buffer>> bytes() const;

 private:
  friend class RemoteQueue;
  // Takes no memory, so a read that was asked for is always finished.
  void Finish(Result<std::shared_ptr<arrow::Buffer>> bytes) noexcept;

  const int32_t file_;
  const ByteRange range_;
  std::atomic<bool> asked_ = false;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<std::function<void()>> waiting_;
  std::optional<Result<std::shared_ptr<arrow::Buffer>>> bytes_;
};

// The queue of reads that a dataset has requested and no client has finished.
// Thread-safe.
class RemoteQueue {
 public:
  struct Request {
    int64_t id = 0;
    int32_t file = 0;
    ByteRange range;
  };

  // `cache` may hold bytes on local disk; null: no cache. `objects` holds each file's
  // name in the cache, by file index; "": the file's bytes are not cached. Throws
  // std::system_error if the system refuses a descriptor.
  explicit RemoteQueue(std::shared_ptr<RangeCache> cache = nullptr,
                       std::vector<std::string> objects = {});
  ~RemoteQueue();
  RemoteQueue(const RemoteQueue&) = delete;
  RemoteQueue& operator=(const RemoteQueue&) = delete;

  // Requests the bytes of `read`; returns true the first time. Lower priority numbers are
  // served first. A read that is cancelled before the client takes the read, or requested
  // after Close, fails with ErrorKind::kClosed; a read that can't be queued fails with
  // OutOfMemory().
  bool Ask(const std::shared_ptr<RemoteRead>& read, int64_t priority,
           Cancelled cancelled) noexcept;

  // Returns true if all of the ranges are in the cache.
  bool Keeps(int32_t file, const std::vector<ByteRange>& ranges) const;
  // Copies a range from the cache; returns false if the cache lacks the range.
  bool ReadKept(int32_t file, const ByteRange& range, uint8_t* out) const;

  // For the client
  // -----------------------------------------------------------------------

  // Returns a descriptor that is readable after Ask(), Wake() and Close(), until
  // ClearWake().
  int wake_fd() const { return wake_.fd(); }
  void Wake() const { wake_.Set(); }
  // Makes the descriptor unreadable until the next event; the client calls ClearWake
  // before its first Take().
  void ClearWake() const { wake_.Clear(); }

  // Returns true if the client has taken reads that it has not finished.
  bool brings() const;
  // Returns the next request, which the client must finish. A read that can't be handed
  // out fails with OutOfMemory().
  std::optional<Request> Take() noexcept;
  // Finishes a request. Bytes of another length than requested are an
  // ErrorKind::kStorage. Does nothing for an id that is not, or no longer, being brought.
  void Finish(int64_t id, Result<std::shared_ptr<arrow::Buffer>> bytes) noexcept;

  // Fails all requested reads, and waits until no thread calls a waiter any more:
  // whatever waiters refer to may end then. Idempotent. Takes no memory.
  void Close() noexcept;

  // Returns the bytes that the client has brought and the core still holds; the caller
  // that hands over bytes counts them with AddHeldBytes.
  int64_t held_bytes() const { return held_bytes_; }
  void AddHeldBytes(int64_t bytes) { held_bytes_ += bytes; }
  bool closed() const;

 private:
  struct Asked {
    std::shared_ptr<RemoteRead> read;
    Cancelled cancelled;
  };

  const WakeEvent wake_;
  const std::shared_ptr<RangeCache> cache_;
  const std::vector<std::string> objects_;  // by file, if there is a cache
  std::atomic<int64_t> held_bytes_ = 0;
  std::shared_mutex calling_;  // shared by the threads that call waiters
  mutable std::mutex mutex_;   // guards the members below
  bool closed_ = false;
  std::multimap<int64_t, Asked> waiting_;  // by priority, then in the order of Ask
  std::unordered_map<int64_t, std::shared_ptr<RemoteRead>> taken_;
  int64_t next_id_ = 0;
};

// A file whose bytes come from the queue's cache, or else through the queue.
class RemoteFile final : public File {
 public:
  RemoteFile(RemoteQueue* queue, int32_t file) : queue_(queue), file_(file) {}

  // May wait for the client, so the client's thread must not call ReadAt.
  Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const override;
  bool AtHand(const ByteRange& range) const override;

 private:
  RemoteQueue* const queue_;
  const int32_t file_;
};

// A remote file of which some ranges are requested together by the constructor. Bytes
// outside the ranges are requested when they are read.
class RangesOfFile final : public File {
 public:
  RangesOfFile(RemoteQueue* queue, int32_t file, const std::vector<ByteRange>& ranges);

  // Waits for the client.
  Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const override;
  bool AtHand(const ByteRange& range) const override;

 private:
  // Returns the request that brings the byte at `offset`, or null.
  RemoteRead* ReadOf(int64_t offset) const;

  const RemoteFile file_;
  std::vector<std::shared_ptr<RemoteRead>> reads_;
};

}  // namespace fastload
