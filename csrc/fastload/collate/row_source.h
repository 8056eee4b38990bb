// What windows take rows from: files or blocks, which rows of them stay, and which
// columns they become.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fastload/base/counters.h"
#include "fastload/base/recycling_pool.h"
#include "fastload/blocks/decoded_queue.h"
#include "fastload/fetch/file_table.h"
#include "fastload/fetch/remote.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/row_selection.h"
#include "fastload/plan/unit.h"
#include "fastload/source/file.h"

namespace fastload {

struct RowSource {
  // `remote` is null if all files are local ones.
  RowSource(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
            std::vector<ColumnSpec> columns, const std::vector<OutputSpec>& outputs,
            std::vector<FileSelection> selections, int64_t pool_bytes, bool verify_crc,
            std::shared_ptr<DecodedQueue> blocks);

  const bool verify_crc;  // of pages that have a checksum
  RecyclingPool pool;     // of decompressed pages and dictionaries
  FileTable files;
  // Null: files are read. Else blocks of the rows that stay of their row groups.
  const std::shared_ptr<DecodedQueue> blocks;
  const std::vector<FileSelection> selections;  // by file; empty: all rows stay
  const std::vector<ColumnSpec> columns;
  const Layout layout;
  const std::vector<Unit> units;
  Counters counters;

  // First row, in its file, of a row group.
  int64_t FirstRow(int32_t file, int32_t row_group);

  // The rows of a row group that stay.
  RowBits Bits(int32_t file, int32_t row_group) const;

 private:
  std::mutex mutex_;
  std::unordered_map<int32_t, std::vector<int64_t>> row_group_starts_;
};

}  // namespace fastload
