// Memory of batches from Python: each block is a tensor of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "fastload/base/memory.h"
#include "pybind11/pybind11.h"

namespace fastload {

// A source of tensors for batches. A batch takes its tensor along, so that the tensor's
// allocator can guard the memory: torch reuses pinned memory only after the copies from
// the memory have finished. No other pool should keep the blocks for reuse. A thread that
// needs memory takes the GIL, unless a spare tensor exists.
class TensorMemory {
 public:
  // `allocate(bytes)` makes a tensor of `bytes` bytes.
  explicit TensorMemory(pybind11::object allocate);

  std::unique_ptr<MemorySource> Source() const;

  // Returns the tensor that holds the block, which surrenders its memory, and makes a
  // spare tensor to replace the tensor. Returns None if the tensor was taken before. The
  // caller holds the GIL.
  pybind11::object Take(Block& block);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace fastload
