#include "fastload/scan/remote_streams.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fastload/decode/pages/chunk_open.h"
#include "fastload/fetch/coalesce.h"
#include "fastload/fetch/page_selection.h"
#include "fastload/fetch/page_tables.h"
#include "fastload/fetch/remote.h"
#include "fastload/source/page_index.h"

namespace fastload {
namespace {

using Reads = std::vector<std::shared_ptr<RemoteRead>>;

Reads ReadsOf(int32_t file, std::vector<ByteRange> ranges, const ScanOptions& options) {
  Reads reads;
  for (const ByteRange& range :
       Coalesce(std::move(ranges), options.hole_bytes, options.request_bytes)) {
    reads.push_back(std::make_shared<RemoteRead>(file, range));
  }
  return reads;
}

// Of reads in order, the indices of those with bytes of the range.
void AddOverlapping(const Reads& reads, const ByteRange& range, size_t first,
                    std::set<size_t>* found) {
  const auto before = [&](const auto& read) {
    return read->range().offset + read->range().bytes <= range.offset;
  };
  auto read = std::ranges::partition_point(reads, before);
  for (; read != reads.end(); ++read) {
    if ((*read)->range().offset >= range.offset + range.bytes) break;
    found->insert(first + static_cast<size_t>(read - reads.begin()));
  }
}

int64_t RemoteBytes(const WindowUnit& unit) {
  int64_t bytes = 0;
  for (const RemoteRanges& remote : unit.remote) {
    for (const ByteRange& range : remote.ranges) bytes += range.bytes;
  }
  return bytes;
}

// Makes the remote streams of units that share requests.
void MakeSharedStreams(const Pass& pass, Window* window,
                       const std::vector<size_t>& units) {
  std::map<int32_t, std::vector<ByteRange>> ranges;
  for (size_t u : units) {
    for (const RemoteRanges& remote : window->units[u].remote) {
      auto& all = ranges[remote.file];
      all.insert(all.end(), remote.ranges.begin(), remote.ranges.end());
    }
  }
  std::map<int32_t, std::pair<Reads, size_t>> files;  // and the first read's index
  for (auto& [file, wanted] : ranges) {
    Reads reads = ReadsOf(file, std::move(wanted), pass.options);
    const size_t first = window->reads.size();
    for (const auto& read : reads)
      window->reads.push_back({.bytes = read->range().bytes});
    files.emplace(file, std::pair(std::move(reads), first));
  }
  for (size_t u : units) {
    WindowUnit& unit = window->units[u];
    std::set<size_t> used;
    for (const RemoteRanges& remote : unit.remote) {
      const auto& [reads, first] = files.at(remote.file);
      for (const ByteRange& range : remote.ranges) {
        AddOverlapping(reads, range, first, &used);
      }
      unit.chunks[remote.chunk].stream = std::make_shared<ChunkStream>(
          pass.Fetch(), remote.file, remote.ranges, RemoteReads{reads, /*at_once=*/true},
          pass.Priority(window->index, static_cast<int32_t>(u)), pass.cancelled);
    }
    unit.remote.clear();
    unit.reads.assign(used.begin(), used.end());
    for (size_t read : unit.reads) ++window->reads[read].units;
  }
}

}  // namespace

IndexFiles AskForIndexes(const Pass& pass, const Window& window) {
  IndexFiles indexes;
  if (pass.dataset->files.remote() == nullptr ||
      (pass.dataset->selections.empty() && pass.plan.numbers.empty()))
    return indexes;
  std::map<int32_t, std::vector<ByteRange>> ranges;
  int64_t walked_bytes = 0;  // of chunks without an index
  for (size_t p = 0; p < window.pieces.size(); ++p) {
    const auto file = static_cast<int32_t>(window.pieces[p].file);
    const auto row_group = static_cast<int32_t>(window.pieces[p].row_group);
    const FileSpec& spec = pass.dataset->files.spec(file);
    if (!window.fresh[p] || !spec.remote) continue;
    const bool may_keep_rows = MayKeepRows(*pass.dataset, window, p);
    for (size_t c = 0; c < pass.dataset->columns.size(); ++c) {
      const ColumnSpec& column = pass.dataset->columns[c];
      if (!column.HasLeaf(file)) continue;
      const int32_t leaf = column.leaves[static_cast<size_t>(file)];
      if (pass.dataset->kept.Find({file, row_group, leaf}) != nullptr) continue;
      if (may_keep_rows &&
          pass.dataset->kept_rows.Has(file, row_group, static_cast<int32_t>(c))) {
        continue;
      }
      const auto chunk = ChunkRange(spec, row_group, leaf);
      if (!chunk.ok() || !SelectsPages(pass.fetch, *chunk,
                                       BitsOf(*pass.dataset, window, window.pieces[p]))) {
        continue;
      }
      PageTables* const tables = pass.fetch.tables;
      if (tables != nullptr && tables->Has({file, row_group, leaf})) continue;
      const auto found = IndexRanges(spec, row_group, leaf, /*bounds=*/false);
      if (!found.ok()) continue;
      ranges[file].insert(ranges[file].end(), found->begin(), found->end());
      if (tables == nullptr || !found->empty()) continue;
      // The headers of a chunk's pages say where they are, once and for all.
      if (walked_bytes + chunk->bytes > pass.options.fetch_bytes / 2) continue;
      walked_bytes += chunk->bytes;
      ranges[file].push_back(*chunk);
    }
  }
  Counters* const counters = pass.Fetch().counters;
  for (const auto& [file, of_file] : ranges) {
    const auto asked =
        Coalesce(of_file, pass.options.hole_bytes, pass.options.request_bytes);
    for (const ByteRange& range : asked) counters->read_bytes += range.bytes;
    counters->read_requests += static_cast<int64_t>(asked.size());
    indexes[file] =
        std::make_shared<RangesOfFile>(pass.dataset->files.remote(), file, asked);
  }
  return indexes;
}

void MakeRemoteStreams(const Pass& pass, Window* window) {
  // Units are admitted to the budget one by one: several such groups fit.
  const int64_t most = pass.options.fetch_bytes / 4;
  std::vector<size_t> group;
  int64_t group_bytes = 0;
  for (size_t u = 0; u < window->units.size(); ++u) {
    WindowUnit& unit = window->units[u];
    if (unit.remote.empty()) continue;
    const int64_t bytes = RemoteBytes(unit);
    if (bytes > most) {
      for (const RemoteRanges& remote : unit.remote) {
        auto stream = std::make_shared<ChunkStream>(
            pass.Fetch(), remote.file, remote.ranges,
            RemoteReads{.reads = ReadsOf(remote.file, remote.ranges, pass.options)},
            pass.Priority(window->index, static_cast<int32_t>(u)), pass.cancelled);
        unit.fetch_bytes += stream->MemoryBytes();
        unit.chunks[remote.chunk].stream = std::move(stream);
      }
      unit.remote.clear();
      continue;
    }
    if (group_bytes + bytes > most) {
      MakeSharedStreams(pass, window, std::exchange(group, {}));
      group_bytes = 0;
    }
    group.push_back(u);
    group_bytes += bytes;
  }
  MakeSharedStreams(pass, window, group);
}

}  // namespace fastload
