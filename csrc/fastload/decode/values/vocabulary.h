// The entries that categories are looked up in: an immutable hash map to their indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fastload/base/status.h"

namespace fastload {

// Either of byte strings or of integers. Thread-safe: never changes.
class Vocabulary {
 public:
  // An integer of a column: an int64, or a uint64 beyond that.
  struct Integer {
    uint64_t bits = 0;
    bool above_int64 = false;
  };

  // An entry's index is its place in the order given. An entry given twice is an error.
  static Result<std::shared_ptr<const Vocabulary>> OfBytes(
      std::vector<std::string> entries);
  static Result<std::shared_ptr<const Vocabulary>> OfIntegers(
      const std::vector<Integer>& entries);

  bool of_bytes() const { return of_bytes_; }
  int64_t size() const { return size_; }
  // In order of their indices; empty unless of_bytes.
  const std::vector<std::string>& bytes() const { return bytes_; }

  // The index of an entry; `unknown` for what is none.
  int64_t Find(const uint8_t* data, size_t size, int64_t unknown) const;
  int64_t Find(Integer integer, int64_t unknown) const;

 private:
  // Open addressing over a power of two of slots, at most half of them taken.
  class Slots {
   public:
    explicit Slots(size_t entries);

    // Calls same(index) for entries under `key` until it is true; -1 if it never is.
    template <typename Same>
    int64_t Find(uint64_t key, const Same& same) const;
    // `key` may be there for other entries.
    void Add(uint64_t key, int64_t index);

   private:
    struct Slot {
      uint64_t key = 0;
      int64_t index = -1;  // free
    };
    size_t First(uint64_t key) const;

    std::vector<Slot> slots_;
    int shift_;
  };

  Vocabulary(bool of_bytes, size_t entries, size_t above_int64);
  int64_t FindBytes(uint64_t hash, const uint8_t* data, size_t size) const;

  bool of_bytes_;
  int64_t size_;
  Slots slots_;        // by hash of the bytes, or by value of the integer
  Slots above_int64_;  // by value
  std::vector<std::string> bytes_;
};

}  // namespace fastload
