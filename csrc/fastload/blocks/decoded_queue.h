// The queue between scans, which request blocks from the cache, and the threads that find
// or make blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/blocks/decoded_block.h"

namespace fastload {

// A queue of requested blocks. Thread-safe.
class DecodedQueue {
 public:
  // `at_once` blocks are made at a time.
  explicit DecodedQueue(int32_t at_once) : at_once_(at_once) {}
  int32_t at_once() const { return at_once_; }

  using Block = std::shared_ptr<const DecodedBlock>;
  using Arrived = std::function<void(const Result<Block>&)>;
  using Key = std::pair<int32_t, int32_t>;  // file and row group

  // Requests the block of a row group. Calls `arrived` once with the block, at once or on
  // another thread. `arrived` must not throw: what it throws is lost, and only the other
  // callers of Ask go on. Throws std::bad_alloc, and requests nothing, if there is no
  // memory.
  void Ask(Key key, Arrived arrived);

  // Returns the next row group whose block is requested, or nullopt if no request is
  // left.
  std::optional<Key> Take();

  // Waits until a block is requested, Wake is called or the queue is closed, for at most
  // `timeout`. Returns the number of these events so far. Returns at once if the number
  // differs from `seen`: makers of blocks get `seen` before they look for work, so that
  // no event is missed.
  int64_t Wait(int64_t seen, std::chrono::milliseconds timeout);
  void Wake();

  // Opens the block of a row group that was taken, and passes the block to the waiters.
  // The waiters go on waiting unless the block is kGood. `name` is passed to
  // DecodedBlock::Open, and `rows` is the number of rows that the block must have.
  // `written` is the checksum that this process has just written, or 0 if it has not
  // written the block.
  BlockState Open(Key key, const std::string& path, const std::string& name, int64_t rows,
                  uint64_t written = 0);
  // Passes a block in memory to the waiters, and to later callers of Ask for as long as
  // the block lives.
  void HandOver(Key key, const Block& block);
  // Notes the checksum of a block that this process has just written.
  void NoteWritten(Key key, uint64_t checksum);
  // Bytes of blocks in memory, which Hold() was given this counter for.
  const std::shared_ptr<std::atomic<int64_t>>& held_bytes() const { return held_bytes_; }

  // Fails the request for a block. ErrorKind::kCorruptFile counts as damage of the row
  // group.
  void Fail(Key key, ErrorKind kind, const std::string& message) noexcept;

  // Fails all requests, now and later. Idempotent. Takes no memory.
  void Close() noexcept;
  bool closed();

 private:
  // The most mapped blocks that are kept beside the blocks in use. Each block has a
  // descriptor, and the number stays far below the usual limit of 1,024.
  static constexpr size_t kMostKept = 128;

  void Answer(Key key, const Result<Block>& result) noexcept;
  static void CallAll(const std::vector<Arrived>& waiting,
                      const Result<Block>& result) noexcept;
  void WakeLocked();

  const int32_t at_once_;
  const std::shared_ptr<std::atomic<int64_t>> held_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::mutex mutex_;  // guards the members below
  std::condition_variable woken_;
  bool closed_ = false;
  int64_t wakes_ = 0;
  std::deque<Key> queue_;
  std::map<Key, std::vector<Arrived>> waiting_;
  std::map<Key, uint64_t> checked_;        // checksums that were found to be right
  std::list<std::pair<Key, Block>> kept_;  // newest first
  std::map<Key, std::weak_ptr<const DecodedBlock>> held_;  // blocks in memory
};

}  // namespace fastload
