#include "fastload/scan/window_setup.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fastload/collate/shuffle.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/fetch/local_stream.h"
#include "fastload/scan/remote_streams.h"

namespace fastload {
namespace {

// Null: whatever the file is read from.
const File* IndexesOf(const IndexFiles& indexes, int32_t file) {
  const auto found = indexes.find(file);
  return found == indexes.end() ? nullptr : found->second.get();
}

// Column chunks of a unit that are decoded side by side: enough for all threads, where
// units alone are not. Units without columns have next to no work.
int64_t SharesWanted(const Pass& pass) {
  // A consumer waits for the one batch, so every unit takes all threads.
  if (pass.plan.by_takes) return 2 * int64_t{pass.cpu->threads()};
  const int64_t units = std::ranges::count_if(
      pass.dataset->units, [](const Unit& unit) { return !unit.columns.empty(); });
  return (2 * pass.cpu->threads() + units - 1) / std::max<int64_t>(1, units);
}

// Tasks in which the staged units of a window fill its parts, together. The first batches
// are delivered while later ones are filled.
constexpr int64_t kPartTasks = 64;
// Packed: the least elements that a task fills, so that small windows have few tasks.
constexpr int64_t kTaskItems = 1 << 16;

void CutParts(const Pass& pass, Window* window) {
  const Lanes& lanes = pass.lanes;
  const int64_t lane = pass.plan.LaneOf(window->index);
  const int64_t begin = lanes.FirstRow(window->index);
  const int64_t end = begin + window->output_rows;
  const int64_t real = lanes.RealRows(lane);
  int64_t batch = lanes.BatchOf(lane, begin);
  const int64_t most_batches = pass.plan.lanes() == 1 ? pass.options.run_batches : 1;
  const int64_t runs = (lanes.BatchOf(lane, end - 1) - batch) / most_batches;
  window->parts.reserve(static_cast<size_t>(runs + (most_batches > 1 ? 3 : 1)));
  for (int64_t at = begin; at < end; ++batch) {
    const int64_t first = lanes.FirstOf(lane, batch);
    const int64_t of_lane = lanes.FirstOf(lane, batch + 1) - first;
    if (of_lane == 0) continue;
    Part part;
    part.batch = batch;
    part.first = at - begin;
    part.offset = pass.plan.FirstRow(part.batch, lane) - pass.plan.FirstRow(part.batch) +
                  at - first;
    part.rows = std::min(end, first + of_lane) - at;
    part.real_rows = std::clamp<int64_t>(real - at, 0, part.rows);
    part.whole = part.rows == pass.BatchRows(part.batch);
    part.of_lane = part.rows == of_lane;
    if (window->packed()) {
      for (const Segment& segment : window->SegmentsOf(part)) part.items += segment.size;
      part.first_item = lanes.ItemsBefore(part.batch, window->index);
    }
    at += part.rows;
    Part* const run = window->parts.empty() ? nullptr : &window->parts.back();
    if (run != nullptr && part.whole && run->whole && run->batches < most_batches) {
      ++run->batches;
      run->rows += part.rows;
      run->real_rows += part.real_rows;
      run->items += part.items;
      continue;
    }
    window->parts.push_back(std::move(part));
  }
}

// Checks that the window's local files are as planned, where kept pages or rows take the
// place of reads, which check the files too.
Status CheckFiles(const Pass& pass, const Window& window) {
  int32_t checked = -1;
  for (size_t p = 0; p < window.pieces.size(); ++p) {
    const auto file = static_cast<int32_t>(window.pieces[p].file);
    const FileSpec& spec = pass.dataset->files.spec(file);
    if (!window.fresh[p] || file == checked || spec.remote) continue;
    checked = file;
    const auto opened = pass.dataset->files.Open(file);
    if (opened.ok()) continue;
    return At(opened.status(),
              {.file = spec.path,
               .row_group = static_cast<int32_t>(window.pieces[p].row_group),
               .file_index = file});
  }
  return Status::OK();
}

// As File::IsCached has it, by piece: chunks of a row group lie side by side.
using SeenCached = std::vector<std::optional<int64_t>>;

// Finds what is kept of the column chunk of a piece, or else makes its local stream, or
// tells which remote one it needs.
Status MakeStream(const Pass& pass, Window* window, int32_t unit, int32_t column,
                  size_t piece, const IndexFiles& indexes, SeenCached* seen_cached,
                  WindowChunk* chunk) {
  Dataset& dataset = *pass.dataset;
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  const ColumnSpec& spec = dataset.columns[static_cast<size_t>(column)];
  const Piece& p = window->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  const auto row_group = static_cast<int32_t>(p.row_group);
  if (!spec.HasLeaf(file)) return Status::OK();
  const int32_t leaf = spec.leaves[static_cast<size_t>(file)];
  chunk->kept = dataset.kept.Find({file, row_group, leaf});
  if (MayKeepRows(dataset, *window, piece)) {
    chunk->kept_rows = dataset.kept_rows.Find(
        RowsKey(dataset.units[static_cast<size_t>(unit)], column, p));
  }
  if (chunk->kept != nullptr || chunk->kept_rows != nullptr) return Status::OK();
  state.reads_bytes = true;
  const FileSpec& file_spec = dataset.files.spec(file);
  const Location location{.file = file_spec.path,
                          .row_group = row_group,
                          .column = spec.name,
                          .file_index = file};
  auto facts = FactsOf(file_spec, row_group, leaf);
  if (!facts.ok()) return At(facts.status(), location);
  chunk->facts = *facts;
  const FetchContext fetch = pass.Fetch();
  if (p.numbers >= 0 && dataset.dictionaries.on()) {
    chunk->dictionary = dataset.dictionaries.Find({file, row_group, column});
  }
  auto pages =
      SelectPages(fetch, file, row_group, leaf, facts->range, BitsOf(dataset, *window, p),
                  IndexesOf(indexes, file), chunk->dictionary != nullptr);
  if (!pages.ok()) return At(pages.status(), location);
  chunk->pages = *std::move(pages);
  if (!chunk->pages.lacks_dictionary) chunk->dictionary.reset();
  std::vector<ByteRange> ranges = std::move(chunk->pages.ranges);
  if (!dataset.files.OnDisk(file, ranges)) {
    const auto number = static_cast<size_t>(chunk - state.chunks.data());
    state.remote.push_back({number, file, std::move(ranges)});
    return Status::OK();
  }
  chunk->stream = MakeLocalStream(fetch, file, std::move(ranges),
                                  {.segment_bytes = pass.options.segment_bytes,
                                   .priority = pass.Priority(window->index, unit),
                                   .cancelled = pass.cancelled},
                                  &(*seen_cached)[piece]);
  state.fetch_bytes += chunk->stream->MemoryBytes();
  return Status::OK();
}

// Makes the local streams of a unit, and tells which remote ones it needs.
Status MakeUnitStreams(const Pass& pass, Window* window, int32_t unit,
                       const IndexFiles& indexes, SeenCached* seen_cached) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  const auto& columns = pass.dataset->units[static_cast<size_t>(unit)].columns;
  const auto fresh = std::ranges::count(window->fresh, true);
  state.chunks.resize(columns.size() * static_cast<size_t>(fresh));
  auto chunk = state.chunks.begin();
  for (int32_t column : columns) {
    for (size_t p = 0; p < window->pieces.size(); ++p) {
      if (!window->fresh[p]) continue;
      ARROW_RETURN_NOT_OK(
          MakeStream(pass, window, unit, column, p, indexes, seen_cached, &*chunk));
      ++chunk;
    }
  }
  return Status::OK();
}

// Returns `wanted` of a packed window. Empty where most rows are wanted or lists are
// short: rows are then read faster one after the other.
std::vector<bool> WantedRows(const Window& w) {
  constexpr int64_t kLeastLength = 64;  // mean elements of a list that is worth a run
  std::vector<bool> wanted(static_cast<size_t>(w.rows));
  int64_t elements = 0;
  for (const Segment& segment : w.segments) {
    if (segment.row == Segment::kPadding) continue;
    elements += segment.size;
    wanted[segment.row] = true;
  }
  const auto count = static_cast<int64_t>(std::ranges::count(wanted, true));
  if (count * 4 >= w.rows * 3 || elements < count * kLeastLength) wanted.clear();
  return wanted;
}

// Charges what staged rows take in the window's parts, before that memory is taken:
// copies of long rows take more than the mean row, by which windows were measured.
Status ChargeCopies(const Pass& pass, Window* window) {
  int64_t bytes = 0;
  for (size_t u = 0; u < window->units.size(); ++u) {
    const Unit& unit = pass.dataset->units[u];
    if (!unit.staged() || unit.slots.empty()) continue;
    const auto levels = static_cast<size_t>(unit.slots[0].levels);
    const std::vector<int64_t>& sizes = window->units[u].sizes;
    int64_t of_unit = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool counts_lists = (i + 1) % levels != 0;
      of_unit += sizes[i] * (counts_lists ? static_cast<int64_t>(sizeof(int64_t)) : 1);
    }
    bytes += of_unit * static_cast<int64_t>(unit.slots.size());
  }
  window->copied = Fills(&pass.dataset->fills);
  return window->copied.TakeCopies(1, bytes);
}

}  // namespace

void SetUpWindow(const Pass& pass, Window* window) {
  Window& w = *window;
  const auto i = static_cast<size_t>(w.index);
  const auto all = std::span(pass.plan.pieces);
  const auto first = static_cast<size_t>(pass.plan.first_piece[i]);
  const auto end = static_cast<size_t>(pass.plan.first_piece[i + 1]);
  w.pieces = all.subspan(first, end - first);
  w.numbers = pass.plan.numbers;
  for (const Piece& piece : w.pieces) {
    if (piece.copies < 0) break;
    const auto counts = pass.plan.copies.subspan(static_cast<size_t>(piece.copies),
                                                 static_cast<size_t>(piece.copy_rows));
    w.copies.push_back(pass.copies->Of(counts));
  }
  const auto goes_on = [&](const Piece& before, const Piece& now) {
    return now.numbers < 0 && before.file == now.file &&
           before.row_group == now.row_group && now.start >= before.stop;
  };
  const int64_t before = pass.lanes.Before(w.index);
  w.first = before < 0;
  const int64_t after = pass.lanes.After(w.index);
  const auto first_of = [&](int64_t window) {
    return static_cast<size_t>(pass.plan.first_piece[static_cast<size_t>(window)]);
  };
  w.fresh.reserve(w.pieces.size());
  w.shared.reserve(w.pieces.size());
  for (size_t p = first; p < end; ++p) {
    const bool in_window = p > first && goes_on(all[p - 1], all[p]);
    const bool from_before =
        p == first && before >= 0 && goes_on(all[first_of(before + 1) - 1], all[p]);
    w.fresh.push_back(!in_window && !from_before);
    w.shared.push_back(pass.shared_groups.contains({all[p].file, all[p].row_group}));
    w.rows += all[p].stop - all[p].start;
  }
  w.continued = after >= 0 && goes_on(all[end - 1], all[first_of(after)]);
  w.output_rows = pass.lanes.Rows(w.index);
  w.takes = std::span(pass.plan.takes.data() + pass.plan.first_take[i],
                      pass.plan.takes.data() + pass.plan.first_take[i + 1]);
  w.shuffled = pass.plan.shuffled && !pass.plan.packed();
  if (pass.plan.packed()) {
    const auto first_segment = static_cast<size_t>(w.takes.front().start);
    w.segments =
        pass.plan.segments.subspan(first_segment, static_cast<size_t>(w.output_rows));
    w.wanted = WantedRows(w);
  }
  w.by_takes = pass.plan.by_takes;
  w.cache_bytes = pass.options.cache_bytes;
  w.pool = pass.staging_pool;
  CutParts(pass, &w);
  w.shares = CutShares(w, SharesWanted(pass));
  w.units = std::vector<WindowUnit>(pass.dataset->units.size());
  w.unfilled = static_cast<int32_t>(w.units.size());
  w.uncounted = static_cast<int32_t>(
      std::count_if(pass.dataset->units.begin(), pass.dataset->units.end(),
                    [](const Unit& u) { return u.staged(); }));
  w.unstaged = w.uncounted;
  // The rows of several columns, side by side, would take the caches from each other. In
  // order, windows begin small, and elements that wait in their pages may turn out to be
  // damaged when they are filled in: until then no batch of the window may be delivered.
  if (w.packed() ? w.uncounted > 0 : w.shuffled && w.uncounted == 1) {
    int64_t tasks = kPartTasks / w.uncounted;
    if (w.packed()) {
      int64_t items = 0;
      for (const Part& part : w.parts) items += part.items;
      tasks = std::min(tasks, items / kTaskItems);
    }
    w.part_tasks = std::max(static_cast<int64_t>(w.shares.size()), tasks);
  }
  const auto fill_parts =
      static_cast<int32_t>(std::ranges::count_if(pass.dataset->units, [&](const Unit& u) {
        return WindowTask::FillsParts(w, u, WindowStep::kFill);
      }));
  w.unfilled_whole = w.unfilled - fill_parts;
  for (Part& part : w.parts) part.unfilled = fill_parts;
  w.undelivered = static_cast<int32_t>(std::count_if(
      w.parts.begin(), w.parts.end(), [](const Part& p) { return p.of_lane; }));
}

Status MakeStreams(const Pass& pass, Window* window) {
  const auto indexes = AskForIndexes(pass, *window);
  SeenCached seen_cached(window->pieces.size());
  for (size_t u = 0; u < window->units.size(); ++u) {
    ARROW_RETURN_NOT_OK(
        MakeUnitStreams(pass, window, static_cast<int32_t>(u), indexes, &seen_cached));
  }
  const auto keeps = [](const WindowUnit& unit) {
    return std::ranges::any_of(unit.chunks, [](const WindowChunk& chunk) {
      return chunk.kept != nullptr || chunk.kept_rows != nullptr;
    });
  };
  if (std::ranges::any_of(window->units, keeps)) {
    ARROW_RETURN_NOT_OK(CheckFiles(pass, *window));
  }
  if (pass.dataset->files.remote() != nullptr) MakeRemoteStreams(pass, window);
  return Status::OK();
}

void ComputeOrder(const Pass& pass, Window* window) {
  const auto rows = static_cast<uint32_t>(window->rows);
  const auto index = static_cast<size_t>(window->index);
  if (pass.plan.by_takes) {
    std::vector<uint32_t> in_order(rows);
    std::iota(in_order.begin(), in_order.end(), 0U);
    ShuffleTo(in_order, &window->shuffle);
  } else if (pass.plan.orders.empty()) {
    MakeShuffle(pass.plan.keys[index], rows, &window->shuffle, pass.options.bucket_rows);
  } else {
    const auto order = std::span(pass.plan.orders)
                           .subspan(static_cast<size_t>(pass.first_ordered[index]), rows);
    ShuffleTo(order, &window->shuffle, pass.options.bucket_rows);
  }
  const auto any = [&](auto wanted) {
    return std::any_of(pass.dataset->units.begin(), pass.dataset->units.end(), wanted);
  };
  if (any([](const Unit& u) { return u.kind == Unit::Kind::kNested; })) {
    window->order.rows = RowsOf(window->shuffle, window->takes);
  }
  if (any([&](const Unit& u) {
        return IsRowByRow(*window, u) || u.kind == Unit::Kind::kPadded;
      })) {
    FindOutputs(window->shuffle, window->takes, &window->order);
  }
}

Status AllocateParts(const Pass& pass, Delivery* delivery, Window* window) {
  if (!window->copies.empty() && pass.dataset->layout.ragged()) {
    ARROW_RETURN_NOT_OK(ChargeCopies(pass, window));
  }
  const bool packed = pass.plan.packed();
  const bool in_place = packed || !pass.dataset->layout.ragged();
  if (in_place) delivery->PlaceInBatches(window->parts);
  std::vector<int64_t> sizes(static_cast<size_t>(pass.dataset->layout.sizes()));
  for (size_t p = 0; p < window->parts.size(); ++p) {
    Part& part = window->parts[p];
    if (part.in_place) continue;
    for (size_t u = 0; u < window->units.size(); ++u) {
      if (!pass.dataset->units[u].staged()) continue;
      for (const Layout::Slot& slot : pass.dataset->units[u].slots) {
        std::copy_n(window->units[u].sizes.begin() + p * slot.levels, slot.levels,
                    sizes.begin() + slot.first_size);
      }
    }
    if (!part.whole && in_place) {
      if (packed) {
        const int64_t items = pass.lanes.Items(part.batch);
        for (int64_t& size : sizes) size = size / part.items * items;
        sizes.back() = items;
      }
      ARROW_RETURN_NOT_OK(delivery->PlaceInBatch(&part, sizes));
      continue;
    }
    if (packed) sizes.back() = part.items;
    part.areas = pass.dataset->layout.Place(part.rows, sizes);
    ARROW_ASSIGN_OR_RAISE(part.block, pass.batch_pool->Allocate(part.areas.bytes));
  }
  return Status::OK();
}

}  // namespace fastload
