// What scans need of the cache of blocks, and who looks for it and makes it.
#pragma once

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

// Thread-safe.
class DecodedQueue {
 public:
  // `at_once` blocks are made at a time.
  explicit DecodedQueue(int32_t at_once) : at_once_(at_once) {}
  int32_t at_once() const { return at_once_; }

  using Block = std::shared_ptr<const DecodedBlock>;
  using Arrived = std::function<void(const Result<Block>&)>;
  using Key = std::pair<int32_t, int32_t>;  // file and row group

  // Calls `arrived` once, at once or on another thread, with the block of a row group.
  void Ask(Key key, Arrived arrived);

  // The next row group of which a block is asked for; nullopt if there is none.
  std::optional<Key> Take();

  // For those who make blocks, to wait for whatever is next: how often something was
  // asked for, the queue was closed, or woken. Waits a while for another number than
  // `seen`, which was had before looking for work, so that nothing is missed.
  int64_t Wait(int64_t seen, std::chrono::milliseconds timeout);
  void Wake();

  // Opens the block of a row group that was taken, for those who wait for it. Unless it
  // is kGood they still do. `name` as DecodedBlock::Open has it, `rows` are those that
  // it has to have, `written` is the checksum that this process has just written; 0: it
  // has not.
  BlockState Open(Key key, const std::string& path, const std::string& name, int64_t rows,
                  uint64_t written = 0);
  // There is none. ErrorKind::kCorruptFile counts as damage of the row group.
  void Fail(Key key, ErrorKind kind, const std::string& message);

  // Fails all that is asked for and all that will be. Idempotent.
  void Close();
  bool closed();

 private:
  // Mapped blocks beside those in use, which each have a descriptor: far below the usual
  // limit of 1,024.
  static constexpr size_t kMostKept = 128;

  void Answer(Key key, const Result<Block>& result);
  void WakeLocked();

  const int32_t at_once_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool closed_ = false;
  int64_t wakes_ = 0;
  std::deque<Key> queue_;
  std::map<Key, std::vector<Arrived>> waiting_;
  std::map<Key, uint64_t> checked_;        // checksums that were found right
  std::list<std::pair<Key, Block>> kept_;  // the newest first
};

}  // namespace fastload
