// Packed rows: segments of lists, one after another, in rows of equal size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fastload/collate/nested_window.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/read_plan.h"

namespace fastload {

// Writes the lists of a ragged output that are the segments. `padding` is an item,
// written at the segments that are padding; `numbers` are the numbers of the output's
// slot in the areas of `base`, from the first segment on, and `first` is the number of
// its first element in the output.
void WriteSegments(const StagedLists& from, std::span<const Segment> segments,
                   const std::string& padding, int64_t first, uint8_t* base,
                   const int64_t* numbers);

// The outputs of a batch that are made of its segments once these are together.
// Thread-safe.
class PackedOutputs {
 public:
  PackedOutputs(const std::vector<OutputSpec>& outputs, const Layout& layout);

  bool empty() const { return outputs_.empty(); }

  // Writes the outputs of a complete batch.
  void Write(uint8_t* base, const Layout::Areas& areas) const;

 private:
  struct Output {
    OutputKind kind;
    Layout::Slot slot;
  };
  std::vector<Output> outputs_;
  int64_t length_;
  Layout::Slot lists_;  // of the first ragged output
  Layout::Slot file_;   // of each segment
  Layout::Slot row_;    // -1: the segment is padding
  Layout::Slot first_;
  Layout::Slot real_;
};

}  // namespace fastload
