// What footers say of many column chunks, as arrays of numbers by leaf: the numbers of a
// chunk are found by the index of its row group, and nothing is parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/source/footer_chunk.h"

namespace fastload {

// The chunks of some leaves of a file. The bytes are the same in memory and on disk: a
// head, the leaves in order with the place of their arrays, the arrays. Each array stores
// the distances from its least number in as few bytes as the largest one needs.
// Immutable.
class LeafFacts {
 public:
  // Returns the bytes of facts. `chunks[i]` are the chunks of `leaves[i]` by row group;
  // `leaves` are sorted.
  static std::string Pack(const std::vector<int32_t>& leaves,
                          const std::vector<std::vector<FooterChunk>>& chunks);

  // Takes bytes that Pack() returned, which `owner` keeps in memory. Returns no facts if
  // the bytes are not facts of a file of `row_groups` row groups: no number of `bytes` is
  // believed that leads outside them.
  static std::unique_ptr<const LeafFacts> Of(std::string_view bytes, size_t row_groups,
                                             std::shared_ptr<const void> owner);

  // Returns the place of a leaf, or -1 if its facts are not here.
  int64_t Find(int32_t leaf) const;
  // Returns the numbers of a chunk. `place` is what Find() returned.
  FooterChunk Chunk(int64_t place, size_t row_group) const;

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  LeafFacts(std::string_view bytes, size_t leaves, size_t row_groups,
            std::shared_ptr<const void> owner)
      : bytes_(bytes), leaves_(leaves), row_groups_(row_groups), owner_(std::move(owner)) {}

  const std::string_view bytes_;
  const size_t leaves_;
  const size_t row_groups_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace fastload
