#include "fastload/leaf_summary.h"

#include <algorithm>

namespace fastload {

namespace {

void Add(const LeafChunks& chunks, size_t file, LeafSummary* summary) {
  for (size_t g = 0; g < chunks.value_bytes.size(); ++g) {
    summary->values += chunks.num_values[g];
    const int64_t known = chunks.value_bytes[g];
    summary->value_bytes += known >= 0 ? known : chunks.uncompressed_bytes[g];
  }
  if (summary->null_file >= 0) return;
  const auto& nulls = chunks.null_count;
  const auto found = std::ranges::find_if(nulls, [](int64_t n) { return n > 0; });
  if (found == nulls.end()) return;
  summary->null_file = static_cast<int64_t>(file);
  summary->null_row_group = found - nulls.begin();
}

}  // namespace

Result<std::vector<LeafSummary>> SummarizeLeaves(
    const std::vector<std::shared_ptr<Footer>>& footers,
    const std::vector<std::vector<int32_t>>& leaves,
    const std::vector<bool>& statistics) {
  for (const auto& of_column : leaves) {
    if (of_column.size() == footers.size() && leaves.size() == statistics.size()) {
      continue;
    }
    return Status::Invalid("Expected a leaf for each column and file");
  }
  std::vector<LeafSummary> summaries(leaves.size());
  std::vector<size_t> columns;  // that the file has, with their leaves and statistics
  std::vector<int32_t> indices;
  std::vector<bool> wanted;
  for (size_t f = 0; f < footers.size(); ++f) {
    columns.clear();
    indices.clear();
    wanted.clear();
    for (size_t c = 0; c < leaves.size(); ++c) {
      if (leaves[c][f] < 0) continue;
      columns.push_back(c);
      indices.push_back(leaves[c][f]);
      wanted.push_back(statistics[c]);
    }
    ARROW_ASSIGN_OR_RAISE(const auto chunks, footers[f]->ReadChunks(indices, wanted));
    for (size_t i = 0; i < columns.size(); ++i) Add(chunks[i], f, &summaries[columns[i]]);
  }
  return summaries;
}

}  // namespace fastload
