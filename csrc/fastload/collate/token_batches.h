// Batches of whole documents, as many as fit a number of tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/collate/packing.h"

namespace fastload {

// The limits of a batch; a document with more tokens is a batch of its own.
struct TokenLimits {
  int64_t tokens;
  bool padded;       // count documents x the longest, and batch documents of like lengths
  int64_t max_rows;  // the most documents of a batch
};

struct TokenBatches {
  // If batches are padded: the rows of each window, window after window, in the order of
  // their positions.
  PlanArray<uint32_t> orders;
  std::vector<int64_t> sizes;  // documents of each batch
};

// Forms the batches of each window by itself. Without padding, a batch takes documents in
// the window's order as long as they fit. With padding, batches are formed from the
// longest documents to the shortest, come in the balanced order that `unit_keys` name, or
// in the order of their first documents, and hold their documents in the window's order;
// the documents that are left out keep their places before and after the others.
TokenBatches BatchWindows(const DocumentWindows& windows, const TokenLimits& limits);

}  // namespace fastload
