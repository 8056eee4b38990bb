#include "fastload/fetch/page_tables.h"

namespace fastload {

PageTables::Table PageTables::Find(const Key& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

bool PageTables::Has(const Key& key) {
  std::lock_guard lock(mutex_);
  return by_key_.contains(key);
}

void PageTables::Keep(const Key& key, Table table) {
  std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;
  const int64_t bytes = BytesOf(table);
  Entries node;
  node.emplace_front(key, std::move(table));
  by_key_.emplace(key, node.begin());
  entries_.splice(entries_.begin(), node);
  bytes_ += bytes;
  while (bytes_ > most_bytes_ && entries_.size() > 1) {
    bytes_ -= BytesOf(entries_.back().second);
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

int64_t PageTables::BytesOf(const Table& table) {
  constexpr int64_t kEntryBytes = 200;
  return kEntryBytes + static_cast<int64_t>(table->pages.size() * sizeof(PageExtent));
}

}  // namespace fastload
