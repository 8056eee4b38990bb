// Where the outputs of a batch lie in its one block of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fastload/columns.h"
#include "fastload/memory.h"

namespace fastload {

// Fixed-width (B,) outputs of one dtype lie side by side at a constant pitch, so that one
// tensor operation makes all of them; stacks and byte columns follow.
class Layout {
 public:
  Layout(const std::vector<ColumnSpec>& columns, const std::vector<OutputSpec>& outputs);

  // Offsets and sizes of one batch, in this order: for each group of a dtype (by first
  // appearance) offset and pitch; for each stack its offset; for each byte column the
  // offset of its offsets, of its values, and the bytes of its values.
  struct Areas {
    int64_t rows = 0;
    int64_t bytes = 0;  // of the whole block
    std::vector<int64_t> numbers;
  };
  // `value_bytes`: bytes of the values of each byte column.
  Areas Place(int64_t rows, std::span<const int64_t> value_bytes) const;

  // Batches laid one after the other in one.
  struct Source {
    const uint8_t* base;
    const Areas* areas;
  };
  Areas PlaceMerged(std::span<const Source> sources) const;
  // `to` has the memory that PlaceMerged asks for.
  void Merge(std::span<const Source> sources, uint8_t* to, const Areas& areas) const;

  // A (B,) output, or one column of a stack.
  struct Slot {
    int32_t number = 0;      // index in Areas::numbers of the offset
    int32_t column = 0;      // within a group: times the pitch
    int32_t row_offset = 0;  // within a stack: bytes from the row's start
    int32_t stride = 0;      // bytes from row to row
    bool stacked = false;
  };
  static uint8_t* Address(uint8_t* base, const Areas& areas, const Slot& slot) {
    const auto* numbers = areas.numbers.data() + slot.number;
    return base + numbers[0] +
           (slot.stacked ? slot.row_offset : slot.column * numbers[1]);
  }

  // Of each output: its slot (kStack: of its first column; kBytes: `number` alone).
  const Slot& slot(int32_t output) const { return slots_[static_cast<size_t>(output)]; }
  int32_t byte_outputs() const { return byte_outputs_; }

  static DType OutputType(const OutputSpec& output,
                          const std::vector<ColumnSpec>& columns);

 private:
  struct Group {
    DType dtype;
    int32_t columns = 0;
  };
  std::vector<Group> groups_;
  std::vector<int64_t> stack_row_bytes_;
  std::vector<Slot> slots_;
  int32_t byte_outputs_ = 0;
};

}  // namespace fastload
