// Allocations that fail on purpose.
#pragma once

#include <cstdint>

namespace fastload::testing {

// While one lives, calls of operator new are counted on all threads, those of libarrow
// and libparquet too, and some fail with std::bad_alloc. One lives at a time.
class FailingNew {
 public:
  enum Which : uint8_t {
    kOne,      // call number `first`, counted from 0
    kAllFrom,  // call number `first`, and every later call
  };
  FailingNew(int64_t first, Which which);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  // Returns how many calls there have been so far.
  static int64_t calls();
};

// While one lives, the calls of its thread succeed and are not counted.
class SoundNew {
 public:
  SoundNew();
  ~SoundNew();
  SoundNew(const SoundNew&) = delete;
  SoundNew& operator=(const SoundNew&) = delete;
};

}  // namespace fastload::testing
