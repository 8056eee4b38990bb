// Where the outputs of a batch lie in its one block of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/memory.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Fixed-width (B,) outputs of one dtype lie side by side at a constant pitch, so that one
// tensor operation makes all of them; row-major outputs (stacks, lists, pads) and ragged
// ones follow.
class Layout {
 public:
  Layout(const std::vector<ColumnSpec>& columns, const std::vector<OutputSpec>& outputs);

  // Offsets and sizes of one batch, in this order: for each group of a dtype (by first
  // appearance) offset and pitch; for each row-major output its offset; for each ragged
  // output, for each of its levels, the outermost first, the offset of its int64 offsets
  // and the number of its lists, then the offset of its values and their bytes.
  struct Areas {
    int64_t rows = 0;
    int64_t bytes = 0;  // of the whole block
    std::vector<int64_t> numbers;
  };
  // `sizes`: for each ragged output the lists of its second and further levels, then the
  // bytes of its values.
  Areas Place(int64_t rows, std::span<const int64_t> sizes) const;

  // Batches laid one after the other in one.
  struct Source {
    const uint8_t* base;
    const Areas* areas;
  };
  Areas PlaceMerged(std::span<const Source> sources) const;
  // `to` has the memory that PlaceMerged asks for.
  void Merge(std::span<const Source> sources, uint8_t* to, const Areas& areas) const;

  // An output, or one column of a stack.
  struct Slot {
    int32_t number = 0;      // index in Areas::numbers of the offset
    int32_t column = 0;      // within a group: times the pitch
    int32_t row_offset = 0;  // within a row-major output: bytes from the row's start
    int64_t stride = 0;      // bytes from row to row
    bool row_major = false;
    int32_t levels = 0;      // of a ragged output; else 0
    int32_t first_size = 0;  // of a ragged output, index in the sizes of Place
  };
  static uint8_t* Address(uint8_t* base, const Areas& areas, const Slot& slot) {
    const auto* numbers = areas.numbers.data() + slot.number;
    return base + numbers[0] +
           (slot.row_major ? slot.row_offset : slot.column * numbers[1]);
  }

  // Of each output: its slot (kStack: of its first column).
  const Slot& slot(int32_t output) const { return slots_[static_cast<size_t>(output)]; }
  // Numbers that Place takes.
  int32_t sizes() const { return sizes_; }

  static DType OutputType(const OutputSpec& output,
                          const std::vector<ColumnSpec>& columns);

 private:
  struct Group {
    DType dtype;
    int32_t columns = 0;
  };
  std::vector<Group> groups_;
  std::vector<int64_t> row_bytes_;      // of each row-major output
  std::vector<int32_t> ragged_levels_;  // of each ragged output
  std::vector<Slot> slots_;
  int32_t sizes_ = 0;
};

}  // namespace fastload
