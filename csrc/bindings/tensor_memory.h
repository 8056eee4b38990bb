// Memory of batches that Python makes: each block is a tensor of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fastload/base/memory.h"
#include "pybind11/pybind11.h"

namespace fastload {

// A batch takes its tensor along, so that whoever made it may guard its memory: torch
// reuses pinned memory only after the copies from it. Blocks should not be kept for reuse
// elsewhere. Asks for the GIL in the threads that need memory, but where a tensor was put
// by.
class TensorMemory {
 public:
  // `allocate` makes a tensor of so many bytes.
  explicit TensorMemory(pybind11::object allocate);

  std::unique_ptr<MemorySource> Source() const;

  // The tensor that begins there; another one is put by in its place. With the GIL.
  pybind11::object Take(const uint8_t* data);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace fastload
