#include "fastload/collate/row_source.h"

#include <utility>

#include "fastload/decode/pages/chunk_open.h"

namespace fastload {

RowSource::RowSource(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
                     std::vector<ColumnSpec> columns,
                     const std::vector<OutputSpec>& outputs,
                     std::vector<FileSelection> selections, int64_t pool_bytes,
                     bool verify_crc, int64_t fill_bytes, int64_t kept_bytes,
                     int64_t dictionary_bytes)
    : verify_crc(verify_crc),
      page_blocks(MakePrivateMemory(), pool_bytes),
      pool(&page_blocks),
      files(std::move(files), std::move(remote)),
      selections(std::move(selections)),
      columns(std::move(columns)),
      layout(this->columns, outputs),
      units(MakeUnits(this->columns, outputs, layout)),
      fills(fill_bytes),
      kept(kept_bytes),
      kept_rows(kept.memory()),
      dictionaries(dictionary_bytes) {}

int64_t RowSource::FirstRow(int32_t file, int32_t row_group) {
  std::lock_guard lock(mutex_);
  auto found = row_group_starts_.find(file);
  if (found == row_group_starts_.end()) {
    // Computed first: an entry without its starts would stay for later passes.
    auto starts = RowGroupStarts(files.spec(file));
    found = row_group_starts_.emplace(file, std::move(starts)).first;
  }
  return found->second[static_cast<size_t>(row_group)];
}

void RowSource::LimitKept(int64_t bytes) {
  kept.SetLimit(bytes);
  kept_rows.Shrink();
}

void RowSource::DropKept() noexcept {
  kept.Clear();
  kept_rows.Clear();
  dictionaries.Clear();
}

RowBits RowSource::Bits(int32_t file, int32_t row_group) const {
  const int64_t rows = files.spec(file).RowsOf(row_group);
  if (selections.empty()) return {nullptr, rows};
  return selections[static_cast<size_t>(file)].Of(row_group, rows);
}

}  // namespace fastload
