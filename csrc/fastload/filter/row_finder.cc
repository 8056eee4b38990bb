#include "fastload/filter/row_finder.h"

#include <array>
#include <utility>

namespace fastload {
namespace {

// The most bytes of past reads and pages that are kept for reuse.
constexpr int64_t kMemoryBytes = 64 << 20;

}  // namespace

Result<std::shared_ptr<RowFinder>> RowFinder::Make(std::vector<FileSpec> files,
                                                   std::shared_ptr<RemoteQueue> remote,
                                                   std::vector<ColumnSpec> columns,
                                                   RowFilter filter, int32_t threads,
                                                   bool decodes) {
  ARROW_RETURN_NOT_OK(filter.Check(columns.size()));
  for (const ColumnSpec& spec : columns) {
    const std::array<uint8_t, 8> zero{};
    const bool flat = !spec.bytes && spec.depth == 0 && spec.list_size == 0;
    if (!flat || !spec.fill || !KeyOf(spec.dtype, zero.data())) {
      return Status::Invalid("Expected flat columns of numbers that take nulls, got `",
                             spec.name, "`");
    }
  }
  return std::shared_ptr<RowFinder>(new RowFinder(std::move(files), std::move(remote),
                                                  std::move(columns), std::move(filter),
                                                  threads, decodes));
}

RowFinder::RowFinder(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
                     std::vector<ColumnSpec> columns, RowFilter filter, int32_t threads,
                     bool decodes)
    : files_(std::move(files), std::move(remote)),
      columns_(std::move(columns)),
      filter_(std::move(filter)),
      decodes_(decodes),
      fetches_(MakePrivateMemory(), kMemoryBytes),
      page_blocks_(MakePrivateMemory(), kMemoryBytes),
      pool_(&page_blocks_),
      threads_(MakeThreadPool("fastload-filter", threads)) {}

RowFinder::~RowFinder() {
  files_.CloseAll();
  threads_->Close();
}

Result<FoundRows> RowFinder::Find(RowGroupId row_group) {
  return CatchParquet([&] {
    return SearchRowGroup({.files = &files_,
                           .columns = &columns_,
                           .filter = &filter_,
                           .fetches = &fetches_,
                           .pool = &pool_,
                           .counters = &counters_,
                           .decodes = decodes_},
                          row_group);
  });
}

RowSearch::RowSearch(RowFinder* finder, std::vector<RowGroupId> row_groups, bool skip)
    : state_(std::make_shared<State>()) {
  state_->left = row_groups.size();
  state_->first_failed = row_groups.size();
  state_->found.assign(row_groups.size(), FoundRows{});
  state_->row_groups = std::move(row_groups);
  size_t submitted = 0;
  const Status all = CatchParquet([&] {
    for (; submitted < state_->row_groups.size(); ++submitted) {
      finder->threads()->Submit(0,
                                [finder, state = state_, i = submitted, skip](Scratch&) {
                                  Search(finder, state.get(), i, skip);
                                });
    }
    return Status::OK();
  });
  // Row groups that no task searches have failed.
  std::lock_guard lock(state_->mutex);
  for (size_t i = submitted; i < state_->row_groups.size(); ++i) {
    state_->found[i] = all;
    --state_->left;
  }
}

void RowSearch::Search(RowFinder* finder, State* state, size_t i, bool skip) {
  if (i <= state->first_failed) {
    state->found[i] = finder->Find(state->row_groups[i]);
    const Status& status = state->found[i].status();
    if (!status.ok() && !(skip && KindOf(status) == ErrorKind::kCorruptFile)) {
      size_t first = state->first_failed;
      while (i < first && !state->first_failed.compare_exchange_weak(first, i)) {
      }
    }
  }
  std::lock_guard lock(state->mutex);
  if (--state->left == 0) state->over.notify_all();
}

RowSearch::~RowSearch() {
  state_->first_failed = 0;
  std::unique_lock lock(state_->mutex);
  state_->over.wait(lock, [this] { return state_->left == 0; });
}

bool RowSearch::Wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->over.wait_for(lock, timeout, [this] { return state_->left == 0; });
}

}  // namespace fastload
