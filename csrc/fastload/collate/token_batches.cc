#include "fastload/collate/token_batches.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "fastload/collate/balanced_order.h"
#include "fastload/collate/shuffle.h"

namespace fastload {
namespace {

// Appends the sizes of batches of documents in order.
void AddInOrder(const Documents& documents, const TokenLimits& limits,
                std::vector<int64_t>* sizes) {
  int64_t tokens = 0;
  int64_t size = 0;
  for (const uint32_t row : documents.rows) {
    const int64_t length = documents.lengths[row];
    if (size > 0 && (tokens + length > limits.tokens || size == limits.max_rows)) {
      sizes->push_back(size);
      tokens = size = 0;
    }
    tokens += length;
    ++size;
  }
  if (size > 0) sizes->push_back(size);
}

// Batches of places of documents in their order, formed from the longest documents on.
struct ByLength {
  std::vector<uint32_t> places;  // batch after batch, ascending within a batch
  std::vector<size_t> edges;     // of the batches among the places
  std::vector<Work> squares;     // by batch: of the padded lengths, all together
};

ByLength LongestFirst(const Documents& documents, const TokenLimits& limits) {
  constexpr uint64_t kPlace = UINT32_MAX;
  std::vector<uint64_t> sorted;  // longest first; equal ones in their order
  sorted.reserve(documents.rows.size());
  for (const uint32_t row : documents.rows) {
    sorted.push_back((kPlace - documents.lengths[row]) << 32 | sorted.size());
  }
  std::ranges::sort(sorted);
  ByLength batches;
  batches.places.reserve(sorted.size());
  for (const uint64_t one : sorted) {
    batches.places.push_back(static_cast<uint32_t>(one & kPlace));
  }
  batches.edges.push_back(0);
  for (size_t at = 0; at < sorted.size();) {
    const int64_t longest = documents.lengths[documents.rows[batches.places[at]]];
    const int64_t fit = longest > 0 ? limits.tokens / longest : limits.max_rows;
    const int64_t size = std::min(std::max<int64_t>(1, fit), limits.max_rows);
    const auto begin = batches.places.begin() + static_cast<int64_t>(at);
    const int64_t taken = std::min(size, batches.places.end() - begin);
    std::sort(begin, begin + taken);
    at += static_cast<size_t>(taken);
    batches.edges.push_back(at);
    const auto padded = static_cast<Work>(longest);
    batches.squares.push_back(static_cast<Work>(taken) * padded * padded);
  }
  return batches;
}

// Appends the documents and the sizes of padded batches, in the balanced order that `key`
// names, where the work of a batch are the squares of its padded lengths, or in the order
// of their first documents.
void AddPadded(const Documents& documents, const TokenLimits& limits,
               std::optional<uint64_t> key, TokenBatches* batches) {
  const ByLength formed = LongestFirst(documents, limits);
  const auto& places = formed.places;
  const auto& edges = formed.edges;
  std::vector<uint32_t> order(edges.size() - 1);
  if (key) {
    order = BalancedOrder(*key, formed.squares);
  } else {
    std::iota(order.begin(), order.end(), uint32_t{0});
    std::ranges::sort(order, {}, [&](uint32_t batch) { return places[edges[batch]]; });
  }
  for (const uint32_t batch : order) {
    for (size_t i = edges[batch]; i < edges[batch + 1]; ++i) {
      batches->orders.push_back(documents.rows[places[i]]);
    }
    batches->sizes.push_back(static_cast<int64_t>(edges[batch + 1] - edges[batch]));
  }
}

}  // namespace

TokenBatches BatchWindows(const DocumentWindows& windows, const TokenLimits& limits) {
  TokenBatches batches;
  if (limits.padded) batches.orders.reserve(windows.lengths.size());
  Shuffle shuffle;
  for (size_t w = 0; w + 1 < windows.edges.size(); ++w) {
    const Documents documents = DocumentsOf(windows, w, &shuffle);
    if (limits.padded) {
      // The rows that are left out, ascending.
      const std::span<const uint32_t> all = shuffle.rows;
      const auto before = documents.rows.data() - all.data();
      const auto after = before + static_cast<int64_t>(documents.rows.size());
      std::vector<uint32_t> others(all.begin(), all.begin() + before);
      others.insert(others.end(), all.begin() + after, all.end());
      std::ranges::sort(others);
      auto& orders = batches.orders;
      orders.insert(orders.end(), others.begin(), others.begin() + before);
      AddPadded(documents, limits, windows.UnitKey(w), &batches);
      orders.insert(orders.end(), others.begin() + before, others.end());
    } else {
      AddInOrder(documents, limits, &batches.sizes);
    }
  }
  return batches;
}

}  // namespace fastload
