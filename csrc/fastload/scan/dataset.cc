#include "fastload/scan/dataset.h"

#include "fastload/decode/pages/chunk_open.h"

namespace fastload {

int64_t Dataset::FirstRow(int32_t file, int32_t row_group) {
  std::lock_guard lock(mutex_);
  auto [found, inserted] = row_group_starts_.try_emplace(file);
  if (inserted) found->second = RowGroupStarts(files.spec(file));
  return found->second[static_cast<size_t>(row_group)];
}

RowBits Dataset::Bits(int32_t file, int32_t row_group) const {
  const int64_t rows = files.spec(file).RowsOf(row_group);
  if (selections.empty()) return {nullptr, rows};
  return selections[static_cast<size_t>(file)].Of(row_group, rows);
}

}  // namespace fastload
