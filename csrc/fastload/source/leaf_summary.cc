#include "fastload/source/leaf_summary.h"

namespace fastload {

namespace {

void Add(const LeafTotals& totals, size_t file, LeafSummary* summary) {
  summary->values += totals.values;
  summary->value_bytes += totals.value_bytes;
  summary->nulls += totals.nulls;
  if (totals.null_row_group == LeafTotals::kUnknown) summary->nulls_known = false;
  if (summary->null_file >= 0 || totals.null_row_group < 0) return;
  summary->null_file = static_cast<int64_t>(file);
  summary->null_row_group = totals.null_row_group;
}

}  // namespace

Result<std::vector<LeafSummary>> SummarizeLeaves(
    const std::vector<std::shared_ptr<Footer>>& footers,
    const std::vector<std::vector<int32_t>>& leaves) {
  for (const auto& of_column : leaves) {
    if (of_column.size() == footers.size()) continue;
    return Status::Invalid("Expected a leaf for each column and file, got fewer");
  }
  std::vector<LeafSummary> summaries(leaves.size());
  for (size_t f = 0; f < footers.size(); ++f) {
    ARROW_ASSIGN_OR_RAISE(const auto totals, footers[f]->Totals());
    for (size_t c = 0; c < leaves.size(); ++c) {
      if (leaves[c][f] < 0) continue;
      const auto leaf = static_cast<size_t>(leaves[c][f]);
      if (leaf < totals.size() && totals[leaf].known()) {
        Add(totals[leaf], f, &summaries[c]);
        continue;
      }
      ARROW_ASSIGN_OR_RAISE(const auto chunks, footers[f]->Chunks(leaves[c][f]));
      Add(TotalsOf(chunks), f, &summaries[c]);
    }
  }
  return summaries;
}

}  // namespace fastload
