#include "fastload/decode/pages/kept_dictionaries.h"

#include <iterator>

namespace fastload {

KeptDictionaries::Dictionary KeptDictionaries::Find(const Key& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  ++served_;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void KeptDictionaries::Keep(const Key& key, Dictionary dictionary) {
  const int64_t bytes = BytesOf(dictionary);
  if (bytes > limit_bytes_) return;
  Entries node;
  node.emplace_front(key, std::move(dictionary));
  Entries old;  // dies without the lock
  std::lock_guard lock(mutex_);
  if (!by_key_.emplace(key, node.begin()).second) return;
  entries_.splice(entries_.begin(), node);
  bytes_ += bytes;
  while (bytes_ > limit_bytes_) {
    bytes_ -= BytesOf(entries_.back().second);
    by_key_.erase(entries_.back().first);
    old.splice(old.begin(), entries_, std::prev(entries_.end()));
  }
}

void KeptDictionaries::Clear() noexcept {
  Entries old;  // dies without the lock
  std::lock_guard lock(mutex_);
  by_key_.clear();
  old.swap(entries_);
  bytes_ = 0;
}

KeptDictionaries::Stats KeptDictionaries::stats() const {
  std::lock_guard lock(mutex_);
  return {.bytes = bytes_, .limit = limit_bytes_, .served = served_};
}

int64_t KeptDictionaries::BytesOf(const Dictionary& dictionary) {
  constexpr int64_t kEntryBytes = 300;  // of the objects
  return kEntryBytes + dictionary->bytes();
}

}  // namespace fastload
