// What a footer says of column chunks, as arrays of numbers by leaf: the numbers of a
// chunk are found by the index of its row group, and nothing is parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/source/footer_chunk.h"

namespace fastload {

// The chunks of a file. The bytes are the same in memory and on disk: where each leaf
// ends, then the leaves. A leaf has the least number of each field, and the distances
// from the least number by row group, in as few bytes as the largest one needs.
// Immutable.
class LeafFacts {
 public:
  // Returns the bytes of facts. `chunks` are by leaf and row group; a leaf may have none.
  static std::string Pack(const std::vector<std::vector<FooterChunk>>& chunks);

  // Takes bytes that Pack() returned for `leaves` leaves, which `owner` keeps in memory.
  // No byte is believed: numbers are found inside `bytes`, whatever they are.
  LeafFacts(std::string_view bytes, size_t leaves, size_t row_groups,
            std::shared_ptr<const void> owner);

  // Returns the numbers of a chunk, or nullopt if there are none or they are damaged.
  std::optional<FooterChunk> Chunk(size_t leaf, size_t row_group) const;

 private:
  std::string_view BytesOf(size_t leaf) const;

  const std::string_view bytes_;
  const size_t leaves_;
  const size_t row_groups_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace fastload
