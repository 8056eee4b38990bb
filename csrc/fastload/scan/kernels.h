// Compiled functions that compute columns of a batch from others of its columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"

namespace fastload {

// Arrays of so many rows: of each input its values, and of a ragged one its offsets; the
// seeds of the rows, if it is seeded; of each output its values. 0, or something else if
// it failed. Called by several threads at a time.
using KernelEntry = int64_t (*)(void** arrays, int64_t rows);

struct KernelSpec {
  KernelEntry entry = nullptr;
  std::vector<int32_t> inputs;  // outputs of the batch
  // Likewise, of fixed width. Zeros before the call; one that is an input too is given a
  // copy of its values as that input.
  std::vector<int32_t> outputs;
  bool seeded = false;
};

// All kernels of a dataset, in the order in which they are called. Thread-safe.
class Kernels {
 public:
  Kernels(const std::vector<KernelSpec>& specs, const std::vector<OutputSpec>& outputs,
          const Layout& layout);

  bool empty() const { return kernels_.empty(); }
  size_t size() const { return kernels_.size(); }

  // Calls them on a batch. The number of the first one that failed, whose inputs are then
  // as they were, or -1. `keys`: of each kernel, what seeds are made of.
  Result<int32_t> Run(uint8_t* base, const Layout::Areas& areas,
                      std::span<const uint64_t> keys, Scratch& scratch) const;

 private:
  struct Kernel {
    KernelEntry entry;
    std::vector<Layout::Slot> inputs;
    std::vector<Layout::Slot> outputs;
    std::vector<int32_t> in_place;  // of each output, the input that it replaces, or -1
    bool seeded;
  };
  class Call;

  std::vector<Kernel> kernels_;
  Layout::Slot file_;  // where rows come from, if kernels are seeded
  Layout::Slot row_;
};

// Whether each kernel takes and fills outputs that are there.
Status CheckKernels(const std::vector<KernelSpec>& kernels,
                    const std::vector<OutputSpec>& outputs);

}  // namespace fastload
