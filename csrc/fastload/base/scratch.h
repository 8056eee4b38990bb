// Memory that the tasks of one thread work in, one after the other.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace fastload {

// Working memory of one thread; grows to what its tasks need and stays.
class Scratch {
 public:
  // What the memory is for; each use has its own.
  enum Use : uint8_t { kRows, kBlock, kTile, kCodes, kTable, kUses };

  // At least `bytes` bytes, perhaps none, aligned to kAlignment, unspecified content;
  // what an earlier call for the same use gave may be gone. nullptr when memory has run
  // out.
  uint8_t* Get(Use use, int64_t bytes);

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_[kUses];
  int64_t bytes_[kUses] = {};
};

}  // namespace fastload
