// One range of an object's bytes in a file of its own, as a cache keeps it.
//
// A head of 64 bytes (magic, the range, whose object it is, a checksum of all but
// itself), then the bytes. A file appears under its name by a rename, whole, and never
// changes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"

namespace fastload {

// What a file of the range is called: "0-4096" of its first and end byte in the object.
std::string RangeName(const ByteRange& range);
// The range of a file called so; nullopt for any other name.
std::optional<ByteRange> RangeOfName(std::string_view name);

enum class EntryState : uint8_t { kGood, kMissing, kDamaged };

// An entry on disk. `object` is the name of its object: that of the directory it lies in.
struct RangeEntry {
  std::string directory;
  std::string object;
  ByteRange range;

  std::string path() const { return directory + "/" + RangeName(range); }
  std::string part_path() const { return directory + "/." + RangeName(range) + ".part"; }
};

// Copies the bytes `wanted` of the object, which lie in the entry's range, to `out`. The
// whole entry is compared with its checksum, unless that is `*checked`, which is set. A
// damaged one is removed.
EntryState ReadEntry(const RangeEntry& entry, const ByteRange& wanted, uint64_t* checked,
                     uint8_t* out);

// The right to fill an entry, held by one of all processes at a time: a lock of the
// kernel's on the file it is written to, which a process that dies gives up.
class RangeClaim {
 public:
  // Null if another one has it, or the entry is there (`*there`); makes the directory. An
  // ErrorKind::kStorage where the system refuses.
  static Result<std::unique_ptr<RangeClaim>> Take(RangeEntry entry, bool* there);
  ~RangeClaim();
  RangeClaim(const RangeClaim&) = delete;
  RangeClaim& operator=(const RangeClaim&) = delete;

  const RangeEntry& entry() const { return entry_; }
  bool held() const { return fd_ >= 0; }
  // Of the file that is written to, empty at first; less than 0 once it is given up.
  int descriptor() const { return fd_; }

  // Writes the entry's bytes, which appear at once or not at all, and gives the claim up.
  // Returns the bytes that they take on disk. Once.
  Result<int64_t> Publish(const uint8_t* bytes);
  // Gives it up. Idempotent.
  void Release();

 private:
  RangeClaim(RangeEntry entry, int fd) : entry_(std::move(entry)), fd_(fd) {}
  void Unlock();

  const RangeEntry entry_;
  int fd_;
};

}  // namespace fastload
