// Byte ranges of objects that are kept on local disk, for all processes of a node.
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

// What is there is found by listing an object's directory, when it is first asked for and
// from then on now and then. Entries may vanish at any time. Thread-safe.
class RangeCache {
 public:
  // Objects are directories two levels below this one: "ab/abcdef...".
  explicit RangeCache(std::string directory) : directory_(std::move(directory)) {}

  // Whether all of the bytes are there. If so their entries count as used now, so that
  // they are among the last to make room.
  bool Covers(const std::string& object, const std::vector<ByteRange>& ranges);

  // Copies the bytes; false if some are not there (any more) or are damaged.
  bool Read(const std::string& object, const ByteRange& range, uint8_t* out);

  // As RangeClaim::Take. Null, too, if the entry is there: then Covers() knows of it.
  Result<std::unique_ptr<RangeClaim>> Claim(const std::string& object,
                                            const ByteRange& range);
  // As RangeClaim::Publish; from then on the entry is known.
  Result<int64_t> Publish(RangeClaim* claim, const uint8_t* bytes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Extent {
    int64_t end = 0;
    uint64_t checked = 0;  // the checksum that was found right
    Clock::time_point used;
  };
  // By their first bytes; none within another one.
  struct Object {
    std::map<int64_t, Extent> extents;
    std::optional<Clock::time_point> listed;
  };

  RangeEntry EntryOf(const std::string& object, const ByteRange& range) const {
    return {.directory = directory_ + "/" + object, .object = object, .range = range};
  }
  // The extent with the byte at the position; null if there is none.
  static std::pair<const int64_t, Extent>* Find(Object* object, int64_t position);
  // Whether there are extents with all bytes; adds those not used lately to `stale`.
  static bool FindAll(Object* object, const ByteRange& range,
                      std::vector<ByteRange>* stale);
  static void Add(Object* object, const ByteRange& range);
  // Lists the object's directory, unless that was done a moment ago: then false.
  bool ListLocked(const std::string& name, Object* object);
  void Drop(const std::string& object, const ByteRange& range);

  const std::string directory_;
  std::mutex mutex_;
  std::unordered_map<std::string, Object> objects_;
};

}  // namespace fastload
