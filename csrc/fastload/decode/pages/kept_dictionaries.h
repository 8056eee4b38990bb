// Decoded dictionaries of column chunks that stay in memory from one take to the next.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "fastload/decode/pages/data_pages.h"

namespace fastload {

// A cache of the dictionaries that were asked for last, within a limit of bytes.
// Thread-safe.
class KeptDictionaries {
 public:
  struct Key {
    int32_t file;
    int32_t row_group;
    int32_t column;  // index of the ColumnSpec: columns decode a leaf in different ways
    auto operator<=>(const Key&) const = default;
  };
  using Dictionary = std::shared_ptr<const DecodedDictionary>;

  struct Stats {
    int64_t bytes = 0;   // memory of the dictionaries
    int64_t limit = 0;   // the most such bytes
    int64_t served = 0;  // how often a kept dictionary was found
  };

  // With a limit of 0, nothing is kept.
  explicit KeptDictionaries(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Returns true if dictionaries may be kept.
  bool on() const { return limit_bytes_ > 0; }

  // Returns the dictionary; null if the dictionary is not kept.
  Dictionary Find(const Key& key);
  // Keeps the dictionary, and lets go of those that were asked for longest ago until all
  // fit. A dictionary larger than the limit is not kept.
  void Keep(const Key& key, Dictionary dictionary);
  // Lets go of all dictionaries.
  void Clear() noexcept;

  Stats stats() const;

 private:
  using Entries = std::list<std::pair<Key, Dictionary>>;

  static int64_t BytesOf(const Dictionary& dictionary);

  const int64_t limit_bytes_;
  mutable std::mutex mutex_;  // guards the members below
  Entries entries_;           // the dictionary that was asked for last comes first
  std::map<Key, Entries::iterator> by_key_;
  int64_t bytes_ = 0;
  int64_t served_ = 0;
};

}  // namespace fastload
