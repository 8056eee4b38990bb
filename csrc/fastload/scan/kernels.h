// Compiled functions that compute columns of a batch from other columns of the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"

namespace fastload {

// A function on `rows` rows. `arrays` holds, for each input, its values and, if ragged,
// its offsets; then the seeds of the rows if the kernel is seeded; then, for each output,
// its values. Returns 0, or another number if the kernel failed. Called by several
// threads at a time.
using KernelEntry = int64_t (*)(void** arrays, int64_t rows);

struct KernelSpec {
  KernelEntry entry = nullptr;
  std::vector<int32_t> inputs;  // indices of the batch's outputs
  // Indices of the batch's fixed-width outputs that the kernel writes. They are 0 before
  // the call. If an output is also an input, the kernel gets a copy of the values as the
  // input.
  std::vector<int32_t> outputs;
  // Indices of the int32 output with each row's file and of the int64 output with the
  // row's number in the file, from which seeds are made; -1: the kernel takes no seeds.
  int32_t file = -1;
  int32_t row = -1;

  bool seeded() const { return file >= 0; }
};

// All kernels of a dataset, in the order in which they are called. Thread-safe.
class Kernels {
 public:
  Kernels(const std::vector<KernelSpec>& specs, const Layout& layout);

  bool empty() const { return kernels_.empty(); }
  size_t size() const { return kernels_.size(); }

  // Calls the kernels on a batch. Returns the number of the first kernel that failed,
  // whose inputs are unchanged, or -1. `keys` holds, for each kernel, the key of its
  // seeds.
  Result<int32_t> Run(uint8_t* base, const Layout::Areas& areas,
                      std::span<const uint64_t> keys, Scratch& scratch) const;

 private:
  struct Kernel {
    KernelEntry entry;
    std::vector<Layout::Slot> inputs;
    std::vector<Layout::Slot> outputs;
    std::vector<int32_t> in_place;  // for each output, the input that it replaces, or -1
    bool seeded;
    Layout::Slot file;  // the rows' files and numbers, if the kernel is seeded
    Layout::Slot row;
  };
  class Call;

  std::vector<Kernel> kernels_;
};

// Returns an error unless every kernel's inputs and outputs exist.
Status CheckKernels(const std::vector<KernelSpec>& kernels,
                    const std::vector<OutputSpec>& outputs);

}  // namespace fastload
