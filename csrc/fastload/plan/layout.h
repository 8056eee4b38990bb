// The layout of a batch's outputs in the batch's one buffer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fastload/base/memory.h"
#include "fastload/plan/area_numbers.h"
#include "fastload/plan/columns.h"

namespace fastload {

// The layout of a batch. Fixed-width (B,) outputs of one dtype lie side by side at a
// constant pitch, so that one tensor operation makes all of them. Row-major outputs
// (stacks, lists, pads) and ragged outputs follow, then outputs of packed rows.
class Layout {
 public:
  Layout(const std::vector<ColumnSpec>& columns, const std::vector<OutputSpec>& outputs);

  // The offsets and sizes of one batch. `numbers` holds, in this order: for each group of
  // a dtype (by first appearance) its offset and pitch; for each row-major output its
  // offset; for each ragged output, and each of its levels from the outermost on, the
  // offset of the level's int64 offsets and its number of lists, then the offset of the
  // values and the bytes of the values; for each output of packed rows its offset and its
  // number of elements.
  struct Areas {
    int64_t rows = 0;
    int64_t elements = 0;  // of all packed rows; 0 if rows are not packed
    int64_t bytes = 0;     // size of the whole buffer
    AreaNumbers numbers;
  };
  // Computes the areas of a batch of `rows` rows. `sizes` holds, for each ragged output,
  // the number of lists of its second and further levels, then the bytes of its values;
  // at last, if rows are packed, the elements of all packed rows.
  Areas Place(int64_t rows, std::span<const int64_t> sizes) const;

  // Returns the areas of the rows of a batch from row number `row` on, which element
  // number `element` of the packed rows begins. Only for batches without ragged outputs,
  // or with those of packed rows. Outputs of packed rows stay those of the whole batch.
  Areas From(const Areas& areas, int64_t row, int64_t element = 0) const;

  // A batch that is merged with others into one.
  struct Source {
    const uint8_t* base;
    const Areas* areas;
  };
  // Computes the areas of one batch that holds the sources one after another.
  Areas PlaceMerged(std::span<const Source> sources) const;
  // Copies the sources to `to`, which has the memory that PlaceMerged computed. Outputs
  // of packed rows are not written.
  void Merge(std::span<const Source> sources, uint8_t* to, const Areas& areas) const;

  // Computes the areas of a batch of the rows [row, row + rows) of `from`. Not for packed
  // rows.
  Areas PlaceRows(const Source& from, int64_t row, int64_t rows) const;
  // Copies these rows to `to`, which has the memory that PlaceRows computed.
  void CopyRows(const Source& from, int64_t row, uint8_t* to, const Areas& areas) const;

  // The position of an output, or of one column of a stack, in a batch.
  struct Slot {
    int32_t number = 0;      // index of the offset in Areas::numbers
    int32_t column = 0;      // index in a group, multiplied by the pitch
    int32_t row_offset = 0;  // row-major output: bytes from the row's start
    int64_t stride = 0;      // bytes from one row to the next
    bool row_major = false;
    int32_t levels = 0;      // ragged output: its levels; else 0
    int32_t first_size = 0;  // ragged output: index in the `sizes` of Place
  };
  static uint8_t* Address(uint8_t* base, const Areas& areas, const Slot& slot) {
    const auto* numbers = areas.numbers.data() + slot.number;
    return base + numbers[0] +
           (slot.row_major ? slot.row_offset : slot.column * numbers[1]);
  }

  // Returns the slot of an output (kStack: the slot of its first column).
  const Slot& slot(int32_t output) const { return slots_[static_cast<size_t>(output)]; }
  // Whether the size of a batch depends on its values.
  bool ragged() const { return !ragged_levels_.empty(); }
  // Returns how many sizes Place takes.
  int32_t sizes() const { return sizes_ + (packed() ? 1 : 0); }
  // Returns the elements of a packed row, or 0 if rows are not packed.
  int64_t pack_length() const { return pack_length_; }
  bool packed() const { return pack_length_ > 0; }

  static DType OutputType(const OutputSpec& output,
                          const std::vector<ColumnSpec>& columns);

 private:
  int64_t PackedElements(OutputKind kind, int64_t rows, int64_t elements) const;

  struct Group {
    DType dtype;
    int32_t columns = 0;
  };
  std::vector<Group> groups_;
  std::vector<int64_t> row_bytes_;      // for each row-major output
  std::vector<int32_t> ragged_levels_;  // for each ragged output
  std::vector<OutputKind> packed_;      // outputs of packed rows
  int64_t pack_length_ = 0;
  std::vector<Slot> slots_;
  int32_t sizes_ = 0;
};

}  // namespace fastload
