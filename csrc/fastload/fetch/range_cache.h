// A cache of byte ranges of objects on local disk, shared by all processes of a node.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"
#include "fastload/fetch/range_entry.h"

namespace fastload {

// A cache of byte ranges. An object's entries are found by listing the object's directory
// on first use and again from time to time. Entries may vanish at any time. Thread-safe.
class RangeCache {
 public:
  // Keeps objects in directories two levels below `directory`: "ab/abcdef...".
  explicit RangeCache(std::string directory) : directory_(std::move(directory)) {}

  // Returns true if the cache has all bytes of the ranges, and marks their entries as
  // just used, so that these entries are evicted last.
  bool Covers(const std::string& object, const std::vector<ByteRange>& ranges);

  // Copies the bytes of the range to `out`. Returns false if bytes are missing, have
  // vanished or are damaged.
  bool Read(const std::string& object, const ByteRange& range, uint8_t* out);

  // Calls RangeClaim::Take. Also returns null if the entry exists; Covers() then knows of
  // the entry.
  Result<std::unique_ptr<RangeClaim>> Claim(const std::string& object,
                                            const ByteRange& range);
  // Calls RangeClaim::Publish. Covers() knows of the entry from then on.
  Result<int64_t> Publish(RangeClaim* claim, const uint8_t* bytes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Extent {
    int64_t end = 0;
    uint64_t checked = 0;  // the checksum that was found to be right
    Clock::time_point used;
  };
  // The known extents of an object by first byte; no extent is inside another.
  struct Object {
    std::map<int64_t, Extent> extents;
    std::optional<Clock::time_point> listed;
  };

  RangeEntry EntryOf(const std::string& object, const ByteRange& range) const {
    return {.directory = directory_ + "/" + object, .object = object, .range = range};
  }
  // Returns the extent that holds the byte at `position`, or null.
  static std::pair<const int64_t, Extent>* Find(Object* object, int64_t position);
  // Returns true if extents hold all bytes of the range; adds extents not used lately to
  // `stale`.
  static bool FindAll(Object* object, const ByteRange& range,
                      std::vector<ByteRange>* stale);
  static void Add(Object* object, const ByteRange& range);
  // Lists the object's directory. Returns false without listing if the last listing is
  // recent.
  bool ListLocked(const std::string& name, Object* object);
  void Drop(const std::string& object, const ByteRange& range);

  const std::string directory_;
  std::mutex mutex_;  // guards the members below
  std::unordered_map<std::string, Object> objects_;
};

}  // namespace fastload
