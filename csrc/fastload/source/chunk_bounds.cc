#include "fastload/source/chunk_bounds.h"

#include <memory>

#include "parquet/statistics.h"

namespace fastload {

void LeafBounds::Add(const parquet::ColumnChunkMetaData& chunk) {
  const std::shared_ptr<parquet::Statistics> statistics =
      chunk.is_stats_set() ? chunk.statistics() : nullptr;
  Entry entry{.nulls = -1, .known = statistics != nullptr, .bounded = false};
  if (statistics != nullptr) {
    if (statistics->HasNullCount()) entry.nulls = statistics->null_count();
    // Statistics that contradict themselves say nothing.
    if (statistics->HasNullCount() && entry.nulls < 0) entry.known = false;
    entry.bounded = entry.known && statistics->HasMinMax();
  }
  if (entry.bounded) text_ += statistics->EncodeMin();
  entry.least_end = static_cast<uint32_t>(text_.size());
  if (entry.bounded) text_ += statistics->EncodeMax();
  entry.most_end = static_cast<uint32_t>(text_.size());
  entries_.push_back(entry);
}

ChunkBounds LeafBounds::Chunk(size_t row_group) const {
  const Entry& entry = entries_[row_group];
  const size_t start = row_group == 0 ? 0 : entries_[row_group - 1].most_end;
  const std::string_view text = text_;
  return {.known = entry.known,
          .nulls = entry.nulls,
          .bounded = entry.bounded,
          .least = text.substr(start, entry.least_end - start),
          .most = text.substr(entry.least_end, entry.most_end - entry.least_end)};
}

}  // namespace fastload
