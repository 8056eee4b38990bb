// Which column chunks are kept in memory, or are being recorded.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fastload/decode/pages/kept_memory.h"

namespace fastload {

// Kept chunks by key. Chunks come first, and stay: a pass reads each chunk once, so
// replacing chunks would lose each one before its next use. Thread-safe.
template <typename Key, typename Chunk>
class KeptTable {
 public:
  // Returns the chunk, or null if the chunk is not kept.
  std::shared_ptr<const Chunk> Find(const Key& key) const {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.chunk;
  }

  // Begins to record a chunk. Returns false if the chunk is kept, is being recorded, or
  // was refused.
  bool Begin(const Key& key) {
    std::lock_guard lock(mutex_);
    return entries_.try_emplace(key).second;
  }

  // Keeps a chunk that was recorded.
  void Enter(const Key& key, std::shared_ptr<const Chunk> chunk) {
    std::lock_guard lock(mutex_);
    order_.push_back(key);
    entries_[key].chunk = std::move(chunk);
  }

  // Ends a recording without a chunk. A later pass may record the chunk.
  void GiveUp(const Key& key) noexcept {
    std::lock_guard lock(mutex_);
    entries_.erase(key);
  }

  // Ends a recording for good: the chunk cannot be kept.
  void Refuse(const Key& key) noexcept {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) found->second.refused = true;
  }

  bool Refuses(const Key& key) const {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    return found != entries_.end() && found->second.refused;
  }

  // Lets go of the chunks that came last until `memory` is within its limit.
  void Shrink(const KeptMemory& memory) {
    while (memory.held_bytes() > memory.limit_bytes()) {
      std::shared_ptr<const Chunk> last;  // dies without the lock
      std::lock_guard lock(mutex_);
      if (order_.empty()) return;
      const auto found = entries_.find(order_.back());
      last = std::move(found->second.chunk);
      entries_.erase(found);
      order_.pop_back();
    }
  }

  // Lets go of all chunks.
  void Clear() noexcept {
    std::map<Key, Entry> all;  // dies without the lock
    std::lock_guard lock(mutex_);
    all.swap(entries_);
    order_.clear();
  }

 private:
  struct Entry {
    std::shared_ptr<const Chunk> chunk;  // null: is being recorded, or is refused
    bool refused = false;
  };

  mutable std::mutex mutex_;  // guards the members below
  std::map<Key, Entry> entries_;
  std::vector<Key> order_;  // keys of kept chunks, in the order in which they came
};

}  // namespace fastload
