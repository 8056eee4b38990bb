// Working memory of a thread's tasks, which run one after another.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/slabs.h"

namespace fastload {

// The working memory of one thread. Grows to the size that the thread's tasks need, and
// never shrinks.
class Scratch {
 public:
  // The uses of working memory. Each use has memory of its own.
  enum Use : uint8_t { kRows, kBlock, kTile, kCodes, kTable, kUses };

  // Returns at least `bytes` (perhaps 0) bytes, aligned to kAlignment, with unspecified
  // content, or nullptr if memory has run out. Invalidates the memory that an earlier
  // call returned for the same use.
  uint8_t* Get(Use use, int64_t bytes);

 private:
  struct Free {
    void operator()(uint8_t* data) const { Slabs::Free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_[kUses];
  int64_t bytes_[kUses] = {};
};

}  // namespace fastload
