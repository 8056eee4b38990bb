// Bytes of files that lie elsewhere: asked for by the core, brought by a client.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

// A range of a file that is asked for once, for all who wait for it. Thread-safe.
class RemoteRead {
 public:
  RemoteRead(int32_t file, ByteRange range) : file_(file), range_(range) {}

  int32_t file() const { return file_; }
  const ByteRange& range() const { return range_; }

  // Calls `then` once, on the client's thread, when the bytes are there or have failed;
  // false, without a call, if that is so already.
  bool Then(std::function<void()> then);

  // Once that is so.
  Result<std::shared_ptr<arrow::Buffer>> bytes() const;

 private:
  friend class RemoteQueue;
  void Finish(Result<std::shared_ptr<arrow::Buffer>> bytes);

  const int32_t file_;
  const ByteRange range_;
  std::atomic<bool> asked_ = false;
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  std::optional<Result<std::shared_ptr<arrow::Buffer>>> bytes_;
};

// What is asked for of a dataset's files, and not brought yet. Thread-safe.
class RemoteQueue {
 public:
  struct Request {
    int64_t id = 0;
    int32_t file = 0;
    ByteRange range;
  };

  // cache: where bytes may lie nearer; null: nowhere. `objects`: by file, what it is
  // called there; "": its bytes are not kept. Throws std::system_error if the system
  // refuses a descriptor.
  explicit RemoteQueue(std::shared_ptr<RangeCache> cache = nullptr,
                       std::vector<std::string> objects = {});
  ~RemoteQueue();
  RemoteQueue(const RemoteQueue&) = delete;
  RemoteQueue& operator=(const RemoteQueue&) = delete;

  // Asks for the bytes; true the first time. Lower priority numbers go first. What is
  // cancelled before the client takes it, or asked for once closed, fails with
  // ErrorKind::kClosed.
  bool Ask(const std::shared_ptr<RemoteRead>& read, int64_t priority,
           Cancelled cancelled);

  // Whether all of the ranges lie in the cache.
  bool Keeps(int32_t file, const std::vector<ByteRange>& ranges) const;
  // Copies a range from the cache; false if it is not there.
  bool ReadKept(int32_t file, const ByteRange& range, uint8_t* out) const;

  // For the client
  // -----------------------------------------------------------------------

  // Readable after Ask(), Wake() and Close(), until it is read.
  int wake_fd() const { return wake_.fd(); }
  void Wake() const { wake_.Set(); }
  // Before the first Take(): it is no longer readable for what came till now.
  void ClearWake() const { wake_.Clear(); }

  // Whether the client is bringing some.
  bool brings() const;
  // The next one to bring, which the client then finishes.
  std::optional<Request> Take();
  // Bytes of another number than asked for are an ErrorKind::kStorage. Does nothing for
  // an id that is not being brought (any more).
  void Finish(int64_t id, Result<std::shared_ptr<arrow::Buffer>> bytes);

  // Fails all that is asked for. Idempotent.
  void Close();

  // Bytes that the client has brought and the core has not let go of; whoever hands them
  // over counts them.
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
  const std::vector<std::string> objects_;  // of all files, if there is a cache
  std::atomic<int64_t> held_bytes_ = 0;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::multimap<int64_t, Asked> waiting_;  // by priority, then in the order they came
  std::unordered_map<int64_t, std::shared_ptr<RemoteRead>> taken_;
  int64_t next_id_ = 0;
};

// A file whose bytes come from the cache of a queue, else through that.
class RemoteFile final : public File {
 public:
  RemoteFile(RemoteQueue* queue, int32_t file) : queue_(queue), file_(file) {}

  // May wait for the client: not for its thread.
  Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const override;

 private:
  RemoteQueue* const queue_;
  const int32_t file_;
};

// Some ranges of such a file, asked for together when it is made; what lies outside of
// them is asked for when it is read.
class RangesOfFile final : public File {
 public:
  RangesOfFile(RemoteQueue* queue, int32_t file, const std::vector<ByteRange>& ranges);

  // Waits for the client.
  Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const override;

 private:
  const RemoteFile file_;
  std::vector<std::shared_ptr<RemoteRead>> reads_;
};

}  // namespace fastload
