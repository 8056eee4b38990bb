// The search for the rows of row groups that pass a filter.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "fastload/base/block_memory.h"
#include "fastload/base/counters.h"
#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"
#include "fastload/fetch/file_table.h"
#include "fastload/filter/row_filter.h"
#include "fastload/filter/row_group_search.h"
#include "fastload/plan/columns.h"
#include "fastload/source/file.h"

namespace fastload {

// A finder that searches row groups of some files for one filter. Thread-safe.
class RowFinder {
 public:
  // Columns must be flat fixed-width values of a dtype with keys, and take nulls.
  // `remote` is null if all files are local. `decodes` is as in SearchContext.
  static Result<std::shared_ptr<RowFinder>> Make(std::vector<FileSpec> files,
                                                 std::shared_ptr<RemoteQueue> remote,
                                                 std::vector<ColumnSpec> columns,
                                                 RowFilter filter, int32_t threads,
                                                 bool decodes = true);
  ~RowFinder();

  // Searches one row group. Errors name file, row group and column. Does not throw.
  Result<FoundRows> Find(RowGroupId row_group);

  Executor* threads() const { return threads_.get(); }

 private:
  RowFinder(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
            std::vector<ColumnSpec> columns, RowFilter filter, int32_t threads,
            bool decodes);

  FileTable files_;
  const std::vector<ColumnSpec> columns_;
  const RowFilter filter_;
  const bool decodes_;
  BlockPool fetches_;
  BlockPool page_blocks_;  // of `pool_`
  BlockMemory pool_;
  Counters counters_;
  std::unique_ptr<Executor> threads_;
};

// A search of several row groups at a time, on the finder's threads. The destructor ends
// the search early.
class RowSearch {
 public:
  // With `skip`, a row group that is an ErrorKind::kCorruptFile does not end the search.
  // `finder` is borrowed.
  RowSearch(RowFinder* finder, std::vector<RowGroupId> row_groups, bool skip);
  ~RowSearch();
  RowSearch(const RowSearch&) = delete;
  RowSearch& operator=(const RowSearch&) = delete;

  // Waits until the search is over, for at most `timeout`. Returns true if the search is
  // over.
  bool Wait(std::chrono::milliseconds timeout);

  // Returns the outcome of each row group, once the search is over. No row group behind
  // the first failure is searched. The first failure is the same whatever the order of
  // the threads.
  const std::vector<Result<FoundRows>>& found() const { return state_->found; }

 private:
  // State shared with the tasks. `mutex` guards `left`. One task writes each element of
  // `found`, before the task lowers `left`.
  struct State {
    std::vector<RowGroupId> row_groups;
    std::vector<Result<FoundRows>> found;
    std::mutex mutex;
    std::condition_variable over;
    size_t left = 0;  // number of unfinished tasks
    std::atomic<size_t> first_failed;
  };

  // Searches row group number `i`. Does not throw.
  static void Search(RowFinder* finder, State* state, size_t i, bool skip);

  std::shared_ptr<State> state_;
};

}  // namespace fastload
