#include "fastload/scan/kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fastload/base/stream_key.h"

namespace fastload {

Kernels::Kernels(const std::vector<KernelSpec>& specs, const Layout& layout) {
  for (const KernelSpec& spec : specs) {
    Kernel kernel{.entry = spec.entry,
                  .inputs = {},
                  .outputs = {},
                  .in_place = {},
                  .seeded = spec.seeded(),
                  .file = {},
                  .row = {}};
    if (spec.seeded()) {
      kernel.file = layout.slot(spec.file);
      kernel.row = layout.slot(spec.row);
    }
    for (const int32_t input : spec.inputs) kernel.inputs.push_back(layout.slot(input));
    for (const int32_t output : spec.outputs) {
      const auto found = std::ranges::find(spec.inputs, output);
      kernel.outputs.push_back(layout.slot(output));
      kernel.in_place.push_back(found == spec.inputs.end()
                                    ? -1
                                    : static_cast<int32_t>(found - spec.inputs.begin()));
    }
    kernels_.push_back(std::move(kernel));
  }
}

// One call of one kernel on one batch.
class Kernels::Call {
 public:
  Call(const Kernel& kernel, uint8_t* base, const Layout::Areas& areas)
      : kernel_(kernel), base_(base), areas_(areas) {}

  // Returns the bytes of scratch memory for copies of inputs that outputs replace.
  int64_t CopyBytes() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < kernel_.outputs.size(); ++i) {
      if (kernel_.in_place[i] >= 0) bytes += RoundUp(Bytes(i), kAlignment);
    }
    return bytes;
  }

  // Runs the kernel. Returns true on success. `seeds` is null for a kernel without seeds.
  bool Run(uint8_t* copies, uint64_t* seeds) {
    std::vector<void*> arrays;
    std::vector<size_t> first;  // index of the first array of each input
    for (const Layout::Slot& slot : kernel_.inputs) {
      first.push_back(arrays.size());
      const int64_t* numbers = areas_.numbers.data() + slot.number;
      if (slot.levels > 0) {
        arrays.push_back(base_ + numbers[2 * slot.levels]);
        arrays.push_back(base_ + numbers[0]);
      } else {
        arrays.push_back(Address(slot));
      }
    }
    if (seeds != nullptr) arrays.push_back(seeds);
    uint8_t* copy = copies;
    for (size_t i = 0; i < kernel_.outputs.size(); ++i) {
      uint8_t* const out = Address(kernel_.outputs[i]);
      arrays.push_back(out);
      if (kernel_.in_place[i] >= 0) {
        std::memcpy(copy, out, static_cast<size_t>(Bytes(i)));
        arrays[first[static_cast<size_t>(kernel_.in_place[i])]] = copy;
        copy += RoundUp(Bytes(i), kAlignment);
      }
      std::memset(out, 0, static_cast<size_t>(Bytes(i)));
    }
    if (kernel_.entry(arrays.data(), areas_.rows) == 0) return true;
    copy = copies;
    for (size_t i = 0; i < kernel_.outputs.size(); ++i) {
      if (kernel_.in_place[i] < 0) continue;
      std::memcpy(Address(kernel_.outputs[i]), copy, static_cast<size_t>(Bytes(i)));
      copy += RoundUp(Bytes(i), kAlignment);
    }
    return false;
  }

 private:
  uint8_t* Address(const Layout::Slot& slot) const {
    return Layout::Address(base_, areas_, slot);
  }
  int64_t Bytes(size_t output) const {
    return areas_.rows * kernel_.outputs[output].stride;
  }

  const Kernel& kernel_;
  uint8_t* const base_;
  const Layout::Areas& areas_;
};

Result<int32_t> Kernels::Run(uint8_t* base, const Layout::Areas& areas,
                             std::span<const uint64_t> keys, Scratch& scratch) const {
  const int64_t rows = areas.rows;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    Call call(kernels_[k], base, areas);
    uint8_t* const copies = scratch.Get(Scratch::kRows, call.CopyBytes());
    uint64_t* seeds = nullptr;
    if (kernels_[k].seeded) {
      seeds = reinterpret_cast<uint64_t*>(
          scratch.Get(Scratch::kBlock, rows * static_cast<int64_t>(sizeof(uint64_t))));
    }
    if (copies == nullptr || (kernels_[k].seeded && seeds == nullptr)) {
      return Status::OutOfMemory("Expected memory for a kernel on ", rows,
                                 " rows, got none");
    }
    if (seeds != nullptr) {
      const auto* files = reinterpret_cast<const int32_t*>(
          Layout::Address(base, areas, kernels_[k].file));
      const auto* numbers =
          reinterpret_cast<const int64_t*>(Layout::Address(base, areas, kernels_[k].row));
      for (int64_t row = 0; row < rows; ++row) {
        seeds[row] = Fold(Fold(keys[k], static_cast<uint64_t>(files[row])),
                          static_cast<uint64_t>(numbers[row]));
      }
    }
    if (!call.Run(copies, seeds)) return static_cast<int32_t>(k);
  }
  return -1;
}

Status CheckKernels(const std::vector<KernelSpec>& kernels,
                    const std::vector<OutputSpec>& outputs) {
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelSpec& kernel = kernels[k];
    const auto there = [&](int32_t output) {
      return output >= 0 && output < static_cast<int64_t>(outputs.size());
    };
    const auto fixed = [&](int32_t output) {
      return there(output) &&
             outputs[static_cast<size_t>(output)].kind != OutputKind::kRagged;
    };
    if (kernel.entry == nullptr || !std::ranges::all_of(kernel.inputs, there) ||
        !std::ranges::all_of(kernel.outputs, fixed)) {
      return Status::Invalid("Expected outputs of a batch for kernel ", k);
    }
    // Prepared rows have their places in the source as columns.
    const auto holds = [&](int32_t output, OutputKind kind, DType dtype) {
      if (!there(output)) return false;
      const OutputSpec& spec = outputs[static_cast<size_t>(output)];
      return spec.kind == kind ||
             (spec.kind == OutputKind::kColumn && spec.dtype == dtype);
    };
    if (kernel.seeded() && !(holds(kernel.file, OutputKind::kFile, DType::kInt32) &&
                             holds(kernel.row, OutputKind::kRow, DType::kInt64))) {
      return Status::Invalid("Expected files and rows for the seeds of kernel ", k);
    }
  }
  return Status::OK();
}

}  // namespace fastload
