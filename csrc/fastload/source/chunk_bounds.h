// The bounds of the values of column chunks, by the statistics of footers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parquet/metadata.h"

namespace fastload {

// The statistics of a column chunk; `known` is false where none are stored or their
// writer is known to have made them wrong.
struct ChunkBounds {
  bool known = false;
  int64_t nulls = -1;  // -1: unknown
  bool bounded = false;
  // Encoded as the format stores single values; bounds of long strings may be cut.
  std::string_view least;
  std::string_view most;
};

// The bounds of one leaf's chunks by row group. Immutable once made.
class LeafBounds {
 public:
  // Adds the bounds of the next row group. Throws the exceptions of libparquet.
  void Add(const parquet::ColumnChunkMetaData& chunk);

  ChunkBounds Chunk(size_t row_group) const;

 private:
  struct Entry {
    int64_t nulls;
    uint32_t least_end;  // in text_, where the entry before ends
    uint32_t most_end;
    bool known;
    bool bounded;
  };

  std::vector<Entry> entries_;
  std::string text_;
};

}  // namespace fastload
