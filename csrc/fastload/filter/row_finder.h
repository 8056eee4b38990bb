// Finds the rows of row groups that pass a filter.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "fastload/base/counters.h"
#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/base/recycling_pool.h"
#include "fastload/base/status.h"
#include "fastload/fetch/file_table.h"
#include "fastload/filter/row_filter.h"
#include "fastload/filter/row_group_search.h"
#include "fastload/plan/columns.h"
#include "fastload/source/file.h"

namespace fastload {

// Searches row groups of some files for one filter. Thread-safe.
class RowFinder {
 public:
  // Columns are of fixed-width values of a dtype with keys, flat, and take nulls.
  // `remote` is null if all files are local ones.
  static Result<std::shared_ptr<RowFinder>> Make(std::vector<FileSpec> files,
                                                 std::shared_ptr<RemoteQueue> remote,
                                                 std::vector<ColumnSpec> columns,
                                                 RowFilter filter, int32_t threads);
  ~RowFinder();

  // Errors name file, row group and column.
  Result<FoundRows> Find(RowGroupId row_group);

  Executor* threads() const { return threads_.get(); }

 private:
  RowFinder(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
            std::vector<ColumnSpec> columns, RowFilter filter, int32_t threads);

  FileTable files_;
  const std::vector<ColumnSpec> columns_;
  const RowFilter filter_;
  BlockPool fetches_;
  RecyclingPool pool_;
  Counters counters_;
  std::unique_ptr<Executor> threads_;
};

// The search of several row groups at a time, on the finder's threads. Ended early by its
// destructor.
class RowSearch {
 public:
  // With `skip` a row group that is an ErrorKind::kCorruptFile does not end the search.
  // `finder` is borrowed.
  RowSearch(RowFinder* finder, std::vector<RowGroupId> row_groups, bool skip);
  ~RowSearch();
  RowSearch(const RowSearch&) = delete;
  RowSearch& operator=(const RowSearch&) = delete;

  // Whether it is over, after `timeout` at the most.
  bool Wait(std::chrono::milliseconds timeout);

  // By row group, when it is over. None is looked for behind the first that fails, which
  // is the same one whatever the threads do.
  const std::vector<Result<FoundRows>>& found() const { return state_->found; }

 private:
  // Shared with tasks.
  struct State {
    std::vector<RowGroupId> row_groups;
    std::vector<Result<FoundRows>> found;
    std::mutex mutex;
    std::condition_variable over;
    size_t left = 0;  // tasks
    std::atomic<size_t> first_failed;
  };

  std::shared_ptr<State> state_;
};

}  // namespace fastload
