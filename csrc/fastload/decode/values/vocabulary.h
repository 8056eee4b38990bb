// The vocabulary of categories: an immutable hash map from entries to indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fastload/base/status.h"

namespace fastload {

// A vocabulary of either byte strings or integers. Immutable, so thread-safe.
class Vocabulary {
 public:
  // An integer of a column: an int64, or a uint64 above the largest int64.
  struct Integer {
    uint64_t bits = 0;
    bool above_int64 = false;
  };

  // Makes a vocabulary. An entry's index is its position in `entries`. A repeated entry
  // is an error.
  static Result<std::shared_ptr<const Vocabulary>> OfBytes(
      std::vector<std::string> entries);
  static Result<std::shared_ptr<const Vocabulary>> OfIntegers(
      const std::vector<Integer>& entries);

  bool of_bytes() const { return of_bytes_; }
  int64_t size() const { return size_; }
  // Returns the entries in the order of their indices; empty unless of_bytes.
  const std::vector<std::string>& bytes() const { return bytes_; }

  // Returns the index of an entry, or `unknown` if the vocabulary has no such entry.
  int64_t Find(const uint8_t* data, size_t size, int64_t unknown) const;
  int64_t Find(Integer integer, int64_t unknown) const;

 private:
  // A hash table with open addressing: a power of two of slots, at most half of them
  // taken.
  class Slots {
   public:
    explicit Slots(size_t entries);

    // Calls same(index) for the entries under `key` until a call returns true. Returns
    // that index, or -1 if no call returns true.
    template <typename Same>
    int64_t Find(uint64_t key, const Same& same) const;
    // Adds an entry; other entries may have the same `key`.
    void Add(uint64_t key, int64_t index);

   private:
    struct Slot {
      uint64_t key = 0;
      int64_t index = -1;  // -1: the slot is free
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
  Slots above_int64_;  // integers above the largest int64, by value
  std::vector<std::string> bytes_;
};

}  // namespace fastload
