// The pages of column chunks, kept from one read to the next.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "fastload/source/page_index.h"

namespace fastload {

// A cache of where the pages of column chunks lie, within a limit of bytes: the chunks
// that were asked for last. Thread-safe.
class PageTables {
 public:
  struct Key {
    int32_t file;
    int32_t row_group;
    int32_t leaf;
    auto operator<=>(const Key&) const = default;
  };
  using Table = std::shared_ptr<const PageExtents>;

  explicit PageTables(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Returns the pages of a chunk; null if the chunk is not known.
  Table Find(const Key& key);
  bool Has(const Key& key);
  // Keeps the pages of a chunk; no pages means that they can't be told apart.
  void Keep(const Key& key, Table table);

 private:
  using Entries = std::list<std::pair<Key, Table>>;

  static int64_t BytesOf(const Table& table);

  const int64_t most_bytes_;
  std::mutex mutex_;  // guards the members below
  Entries entries_;   // newest first
  std::map<Key, Entries::iterator> by_key_;
  int64_t bytes_ = 0;
};

}  // namespace fastload
