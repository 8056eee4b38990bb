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
    // Room for the chunk, so that Enter takes no memory.
    if (order_.capacity() <= entries_.size()) order_.reserve(2 * entries_.size() + 1);
    return entries_.try_emplace(key).second;
  }

  // Keeps a chunk that was recorded, unless the recording was forgotten meanwhile.
  void Enter(const Key& key, std::shared_ptr<const Chunk> chunk) noexcept {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.chunk != nullptr) return;
    order_.push_back(found);
    found->second.chunk = std::move(chunk);
  }

  // Ends a recording without a chunk. A later pass may record the chunk.
  void GiveUp(const Key& key) noexcept {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && found->second.chunk == nullptr) entries_.erase(found);
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
      last = std::move(order_.back()->second.chunk);
      entries_.erase(order_.back());
      order_.pop_back();
    }
  }

  // Lets chunks be recorded again that were refused.
  void ForgetRefusals() noexcept {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.refused; });
  }

  // Lets go of all chunks.
  void Clear() noexcept {
    Entries all;  // dies without the lock
    std::lock_guard lock(mutex_);
    all.swap(entries_);
    order_.clear();
  }

 private:
  struct Entry {
    std::shared_ptr<const Chunk> chunk;  // null: is being recorded, or is refused
    bool refused = false;
  };

  using Entries = std::map<Key, Entry>;

  mutable std::mutex mutex_;  // guards the members below
  Entries entries_;
  // The entries with a chunk, in the order in which chunks came.
  std::vector<typename Entries::iterator> order_;
};

}  // namespace fastload
