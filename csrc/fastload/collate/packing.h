// Packing of the documents of a window into rows of equal size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fastload/plan/read_plan.h"

namespace fastload {

// Best fit decreasing: returns the bin of each item. Items are placed from the largest to
// the smallest, equal ones in their order; each goes to the bin with the least room that
// suffices, of equal ones to the latest that came to this room, else to a new bin. Every
// size is between 1 and `capacity`. (D. S. Johnson, "Near-optimal bin packing
// algorithms", MIT, 1973.)
std::vector<int32_t> BestFit(std::span<const uint32_t> sizes, uint32_t capacity);

struct PackedRows {
  std::vector<Segment> segments;  // of all rows, with padding
  std::vector<int64_t> edges;     // of the rows among the segments
};

// Packs documents, none of which is empty, as fastload.plan.packing.pack_best does:
// longer documents are cut every `length` elements first; rows come in the order that
// `key` names, or in the order of their first documents.
PackedRows PackBest(std::span<const Segment> documents, uint32_t length,
                    std::optional<uint64_t> key);

}  // namespace fastload
