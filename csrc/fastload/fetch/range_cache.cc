#include "fastload/fetch/range_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace fastload {
namespace {

// The time after which entries of other processes are noticed; claims keep such entries
// from being fetched twice.
constexpr std::chrono::seconds kListed(1);
// The precision with which the last use of an entry is recorded.
constexpr std::chrono::seconds kUsed(10);

std::vector<ByteRange> List(const std::string& directory) {
  std::vector<ByteRange> ranges;
  const auto close = [](DIR* entries) { closedir(entries); };
  const std::unique_ptr<DIR, decltype(close)> entries(opendir(directory.c_str()), close);
  if (entries == nullptr) return ranges;
  while (const dirent* entry = readdir(entries.get())) {
    if (const auto range = RangeOfName(entry->d_name)) ranges.push_back(*range);
  }
  return ranges;
}

}  // namespace

std::pair<const int64_t, RangeCache::Extent>* RangeCache::Find(Object* object,
                                                               int64_t position) {
  auto after = object->extents.upper_bound(position);
  // No extent is inside another, so among the extents that begin at or before the
  // position, the last one also ends last.
  if (after == object->extents.begin()) return nullptr;
  auto& found = *std::prev(after);
  return found.second.end > position ? &found : nullptr;
}

bool RangeCache::FindAll(Object* object, const ByteRange& range,
                         std::vector<ByteRange>* stale) {
  const auto now = Clock::now();
  const int64_t end = range.offset + range.bytes;
  for (int64_t at = range.offset; at < end;) {
    auto* const found = Find(object, at);
    if (found == nullptr) return false;
    auto& [first, extent] = *found;
    if (now - extent.used > kUsed) stale->push_back({first, extent.end - first});
    at = extent.end;
  }
  return true;
}

void RangeCache::Add(Object* object, const ByteRange& range) {
  const int64_t end = range.offset + range.bytes;
  const auto* const around = Find(object, range.offset);
  if (around != nullptr && around->second.end >= end) return;
  auto& extents = object->extents;
  auto within = extents.lower_bound(range.offset);
  while (within != extents.end() && within->second.end <= end) {
    within = extents.erase(within);
  }
  extents.emplace(range.offset, Extent{.end = end});
}

bool RangeCache::ListLocked(const std::string& name, Object* object) {
  const auto now = Clock::now();
  if (object->listed && now - *object->listed < kListed) return false;
  object->listed = now;
  for (const ByteRange& range : List(directory_ + "/" + name)) Add(object, range);
  return true;
}

bool RangeCache::Covers(const std::string& object, const std::vector<ByteRange>& ranges) {
  std::vector<ByteRange> stale;
  {
    std::lock_guard lock(mutex_);
    Object& known = objects_[object];
    const auto all = [&] {
      stale.clear();
      return std::ranges::all_of(
          ranges, [&](const ByteRange& range) { return FindAll(&known, range, &stale); });
    };
    if (!all() && !(ListLocked(object, &known) && all())) return false;
    for (const ByteRange& range : stale) {
      known.extents.find(range.offset)->second.used = Clock::now();
    }
  }
  for (const ByteRange& range : stale) {
    // If the entry has vanished, reading the entry reports the loss.
    utimensat(AT_FDCWD, EntryOf(object, range).path().c_str(), nullptr,
              AT_SYMLINK_NOFOLLOW);
  }
  return true;
}

bool RangeCache::Read(const std::string& object, const ByteRange& range, uint8_t* out) {
  const int64_t end = range.offset + range.bytes;
  for (int64_t at = range.offset; at < end;) {
    ByteRange entry;
    uint64_t checked = 0;
    {
      std::lock_guard lock(mutex_);
      Object& known = objects_[object];
      const auto* found = Find(&known, at);
      if (found == nullptr && ListLocked(object, &known)) found = Find(&known, at);
      if (found == nullptr) return false;
      entry = {found->first, found->second.end - found->first};
      checked = found->second.checked;
    }
    const ByteRange wanted{at, std::min(end, entry.offset + entry.bytes) - at};
    const uint64_t before = checked;
    if (ReadEntry(EntryOf(object, entry), wanted, &checked, out + (at - range.offset)) !=
        EntryState::kGood) {
      Drop(object, entry);
      return false;
    }
    at += wanted.bytes;
    if (checked == before) continue;
    std::lock_guard lock(mutex_);
    auto& extents = objects_[object].extents;
    const auto found = extents.find(entry.offset);
    if (found != extents.end() && found->second.end == entry.offset + entry.bytes) {
      found->second.checked = checked;
    }
  }
  return true;
}

Result<std::unique_ptr<RangeClaim>> RangeCache::Claim(const std::string& object,
                                                      const ByteRange& range) {
  bool there = false;
  ARROW_ASSIGN_OR_RAISE(auto claim, RangeClaim::Take(EntryOf(object, range), &there));
  if (there) {
    std::lock_guard lock(mutex_);
    Add(&objects_[object], range);
  }
  return claim;
}

Result<int64_t> RangeCache::Publish(RangeClaim* claim, const uint8_t* bytes) {
  ARROW_ASSIGN_OR_RAISE(const int64_t disk_bytes, claim->Publish(bytes));
  std::lock_guard lock(mutex_);
  Add(&objects_[claim->entry().object], claim->entry().range);
  return disk_bytes;
}

void RangeCache::Drop(const std::string& object, const ByteRange& range) {
  std::lock_guard lock(mutex_);
  auto& extents = objects_[object].extents;
  const auto found = extents.find(range.offset);
  if (found != extents.end() && found->second.end == range.offset + range.bytes) {
    extents.erase(found);
  }
}

}  // namespace fastload
