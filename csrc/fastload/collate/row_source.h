// The source of a window's rows: files, the selected rows, and the columns that the rows
// become.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fastload/base/block_memory.h"
#include "fastload/base/counters.h"
#include "fastload/base/memory.h"
#include "fastload/decode/lists/fill_budget.h"
#include "fastload/decode/pages/kept_dictionaries.h"
#include "fastload/decode/pages/kept_pages.h"
#include "fastload/decode/values/kept_rows.h"
#include "fastload/fetch/file_table.h"
#include "fastload/fetch/remote.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/row_selection.h"
#include "fastload/plan/unit.h"
#include "fastload/source/file.h"

namespace fastload {

struct RowSource {
  // `remote` is null if all files are local.
  RowSource(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
            std::vector<ColumnSpec> columns, const std::vector<OutputSpec>& outputs,
            std::vector<FileSelection> selections, int64_t pool_bytes, bool verify_crc,
            int64_t fill_bytes, int64_t kept_bytes, int64_t dictionary_bytes);

  const bool verify_crc;  // check pages that have a checksum
  BlockPool page_blocks;  // of `pool`
  BlockMemory pool;       // memory of decompressed pages and dictionaries
  FileTable files;
  const std::vector<FileSelection> selections;  // by file; empty: all rows are selected
  const std::vector<ColumnSpec> columns;
  const Layout layout;
  const std::vector<Unit> units;
  Counters counters;
  FillBudget fills;  // of all windows
  KeptPages kept;    // pages that stay from one pass to the next
  // Selected rows that stay from one pass to the next, in memory of `kept`.
  KeptSelections kept_rows;
  // Dictionaries that stay from one take to the next. Their memory is of `pool`.
  KeptDictionaries dictionaries;

  // Returns the first row of a row group, counted in its file.
  int64_t FirstRow(int32_t file, int32_t row_group);

  // Sets the most bytes that stay from one pass to the next.
  void LimitKept(int64_t bytes);
  // Lets go of all that stays from one pass or take to the next.
  void DropKept() noexcept;

  // Returns the selected rows of a row group.
  RowBits Bits(int32_t file, int32_t row_group) const;

 private:
  std::mutex mutex_;  // guards the members below
  std::unordered_map<int32_t, std::vector<int64_t>> row_group_starts_;
};

}  // namespace fastload
