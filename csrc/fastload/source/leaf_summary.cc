#include "fastload/source/leaf_summary.h"

#include <algorithm>

namespace fastload {

namespace {

void Add(const LeafTotals& totals, size_t file, LeafSummary* summary) {
  summary->values += totals.values;
  summary->value_bytes += totals.value_bytes;
  if (totals.null_row_group == LeafTotals::kUnknown) summary->nulls_known = false;
  if (summary->null_file >= 0 || totals.null_row_group < 0) return;
  summary->null_file = static_cast<int64_t>(file);
  summary->null_row_group = totals.null_row_group;
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
    return Status::Invalid("Expected a leaf for each column and file, got fewer");
  }
  std::vector<LeafSummary> summaries(leaves.size());
  // Columns that the file has, with their leaves and statistics.
  std::vector<size_t> columns;
  std::vector<int32_t> indices;
  std::vector<bool> wanted;
  for (size_t f = 0; f < footers.size(); ++f) {
    ARROW_ASSIGN_OR_RAISE(const auto packed, footers[f]->PackedTotals());
    columns.clear();
    indices.clear();
    wanted.clear();
    for (size_t c = 0; c < leaves.size(); ++c) {
      if (leaves[c][f] < 0) continue;
      const auto leaf = static_cast<size_t>(leaves[c][f]);
      if (leaf < packed.size() && packed[leaf].known()) {
        Add(packed[leaf], f, &summaries[c]);
        continue;
      }
      columns.push_back(c);
      indices.push_back(leaves[c][f]);
      wanted.push_back(statistics[c]);
    }
    if (columns.empty()) continue;
    ARROW_ASSIGN_OR_RAISE(const auto chunks, footers[f]->ReadChunks(indices, wanted));
    for (size_t i = 0; i < columns.size(); ++i) {
      Add(TotalsOf(chunks[i]), f, &summaries[columns[i]]);
    }
  }
  return summaries;
}

}  // namespace fastload
