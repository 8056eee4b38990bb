// An entry of the cache of byte ranges: one range of an object's bytes in a file of its
// own.
//
// An entry is a head of 64 bytes (magic, the range, a hash of the object's name, a
// checksum of everything but itself) followed by the bytes. The file appears under its
// name by a rename, complete, and never changes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"

namespace fastload {

// Returns the file name of the range: "0-4096" for first byte 0 and end 4096 in the
// object.
std::string RangeName(const ByteRange& range);
// Returns the range that a file name stands for, or nullopt for any other name.
std::optional<ByteRange> RangeOfName(std::string_view name);

enum class EntryState : uint8_t { kGood, kMissing, kDamaged };

// An entry on disk. `object` is the name of the object and of the object's directory.
struct RangeEntry {
  std::string directory;
  std::string object;
  ByteRange range;

  std::string path() const { return directory + "/" + RangeName(range); }
  std::string part_path() const { return directory + "/." + RangeName(range) + ".part"; }
};

// Copies the bytes `wanted` of the object, which are inside the entry's range, to `out`.
// Compares the whole entry with its checksum, unless the checksum equals `*checked`; sets
// `*checked`. Removes a damaged entry.
EntryState ReadEntry(const RangeEntry& entry, const ByteRange& wanted, uint64_t* checked,
                     uint8_t* out);

// The right to fill an entry, which one process holds at a time: a kernel lock on the
// file being written. The lock ends when its process dies.
class RangeClaim {
 public:
  // Takes the claim, and makes the directory. Returns null if another claim is held, or
  // if the entry exists (then `*there` is true). Returns an ErrorKind::kStorage if the
  // system refuses.
  static Result<std::unique_ptr<RangeClaim>> Take(RangeEntry entry, bool* there);
  ~RangeClaim();
  RangeClaim(const RangeClaim&) = delete;
  RangeClaim& operator=(const RangeClaim&) = delete;

  const RangeEntry& entry() const { return entry_; }
  bool held() const { return fd_ >= 0; }
  // Returns the descriptor of the file being written, which is empty at first, or a
  // negative number once the claim is released.
  int descriptor() const { return fd_; }

  // Writes the entry's bytes, which appear all at once or not at all, and releases the
  // claim. Returns the bytes that the entry takes on disk. May be called once.
  Result<int64_t> Publish(const uint8_t* bytes);
  // Releases the claim. Idempotent.
  void Release();

 private:
  RangeClaim(RangeEntry entry, int fd) : entry_(std::move(entry)), fd_(fd) {}
  void Unlock();

  const RangeEntry entry_;
  int fd_;
};

}  // namespace fastload
