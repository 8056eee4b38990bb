// What a scan does once for each window: what it reads, where its rows go, their order.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "fastload/collate/shuffle.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/fetch/local_stream.h"
#include "fastload/scan/scan.h"

namespace fastload {
namespace {

// Null: whatever the file is read from.
const File* IndexesOf(const std::map<int32_t, std::shared_ptr<File>>& indexes,
                      int32_t file) {
  const auto found = indexes.find(file);
  return found == indexes.end() ? nullptr : found->second.get();
}

// Whether bytes of a window are not at hand.
bool Fetches(const Window& window) {
  const auto waits = [](const auto& s) { return s != nullptr && !s->at_hand(); };
  return std::ranges::any_of(window.units, [&](const WindowUnit& unit) {
    return std::ranges::any_of(unit.streams, waits);
  });
}

}  // namespace

// Column chunks of a unit that are decoded side by side: enough for all threads, where
// units alone are not.
int64_t Scan::SharesWanted() const {
  const auto units = static_cast<int64_t>(dataset_->units.size());
  return (2 * cpu_->threads() + units - 1) / units;
}

void Scan::Describe(Window* window) const {
  Window& w = *window;
  const auto i = static_cast<size_t>(w.index);
  const auto all = std::span(plan_.pieces);
  const auto first = static_cast<size_t>(plan_.first_piece[i]);
  const auto end = static_cast<size_t>(plan_.first_piece[i + 1]);
  w.pieces = all.subspan(first, end - first);
  const auto goes_on = [&](size_t piece) {
    // To begin in the middle of a block costs nothing.
    if (dataset_->blocks != nullptr) return false;
    if (piece == 0 || piece >= all.size()) return false;
    const Piece& before = all[piece - 1];
    const Piece& now = all[piece];
    return before.file == now.file && before.row_group == now.row_group &&
           now.start >= before.stop;
  };
  for (size_t p = first; p < end; ++p) {
    w.fresh.push_back(!goes_on(p));
    w.rows += all[p].stop - all[p].start;
  }
  w.continued = goes_on(end);
  w.output_rows = first_output_[i + 1] - first_output_[i];
  w.takes = std::span(plan_.takes.data() + plan_.first_take[i],
                      plan_.takes.data() + plan_.first_take[i + 1]);
  w.shuffled = plan_.shuffled;
  w.pool = staging_pool_;
  CutParts(&w);
  w.shares = CutShares(w, SharesWanted());
  w.units = std::vector<WindowUnit>(dataset_->units.size());
  w.unfilled = static_cast<int32_t>(w.units.size());
  w.uncounted =
      static_cast<int32_t>(std::count_if(dataset_->units.begin(), dataset_->units.end(),
                                         [](const Unit& u) { return u.staged(); }));
  w.unstaged = w.uncounted + 1;
  w.undelivered = static_cast<int32_t>(std::count_if(
      w.parts.begin(), w.parts.end(), [](const Part& p) { return p.whole; }));
}

void Scan::Prepare(const std::shared_ptr<Window>& window) {
  Window& w = *window;
  const SpanTimer span(&dataset_->spans, Stage::kPrepare, {.index = w.index});
  Describe(&w);
  Status status;
  const bool blocks = dataset_->blocks != nullptr;
  if (!blocks) {
    const auto indexes = AskForIndexes(w);
    // Chunks of a row group lie side by side.
    std::vector<std::optional<int64_t>> seen_cached(w.pieces.size());
    for (size_t u = 0; u < w.units.size() && status.ok(); ++u) {
      status = MakeStreams(&w, static_cast<int32_t>(u), indexes, seen_cached);
    }
  }
  if (status.ok() && dataset_->files.remote() != nullptr) MakeRemoteStreams(&w);
  bool opened = false;
  {
    std::lock_guard lock(mutex_);
    if (*cancelled_) return;
    w.prepared = true;
    fetches_ = fetches_ || Fetches(w);
    if (!w.fresh.empty() && !w.fresh[0]) w.before = last_prepared_;
    last_prepared_ = w.continued ? window : nullptr;
    if (!status.ok()) {
      preparing_ = false;
      return FailLocked(w.index, status);
    }
    for (size_t u = 0; u < w.units.size(); ++u) {
      WindowUnit& unit = w.units[u];
      unit.blockers = 1;  // held until all is set, or the order is known
      if (!dataset_->units[u].staged()) unit.blockers += 1;  // placed
      if (dataset_->units[u].columns.empty()) continue;
      if (blocks) unit.blockers += 1;
      unit.held = w.before && !w.before->units[u].carried;
      if (!unit.streams.empty()) {
        unit.blockers += 1;
        requests_.push_back({window, static_cast<int32_t>(u)});
      }
    }
    AdmitLocked();
    opened = w.opened;
  }
  // In plan order, too: the next window is prepared from here on.
  if (blocks) AskForBlocks(window);
  {
    std::lock_guard lock(mutex_);
    preparing_ = false;
    OpenWindowsLocked();
  }
  if (opened) Open(window);
}

void Scan::AskForBlocks(const std::shared_ptr<Window>& window) {
  std::map<DecodedQueue::Key, std::vector<size_t>> pieces;
  for (size_t p = 0; p < window->pieces.size(); ++p) {
    const Piece& piece = window->pieces[p];
    pieces[{static_cast<int32_t>(piece.file), static_cast<int32_t>(piece.row_group)}]
        .push_back(p);
  }
  window->blocks.resize(window->pieces.size());
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, of_key] : pieces) ++awaited_blocks_[key];
  }
  const auto left = std::make_shared<size_t>(pieces.size());
  // In plan order: what comes first is made first.
  std::vector<DecodedQueue::Key> keys;
  keys.reserve(pieces.size());
  for (const auto& [key, of_key] : pieces) keys.push_back(key);
  std::ranges::sort(keys, {}, [&](const auto& key) { return pieces[key].front(); });
  for (const DecodedQueue::Key& key : keys) {
    dataset_->blocks->Ask(
        key, [self = shared_from_this(), window, left, key,
              of_key = pieces[key]](const Result<DecodedQueue::Block>& block) {
          std::lock_guard lock(self->mutex_);
          const auto awaited = self->awaited_blocks_.find(key);
          if (--awaited->second == 0) self->awaited_blocks_.erase(awaited);
          if (*self->cancelled_) return;
          if (!block.ok()) return self->FailLocked(window->index, block.status());
          for (size_t p : of_key) window->blocks[p] = *block;
          if (--*left == 0) self->BlocksArrivedLocked(window);
          self->OpenWindowsLocked();
          self->WakeForWorkLocked();
        });
  }
}

void Scan::BlocksArrivedLocked(const std::shared_ptr<Window>& window) {
  for (size_t u = 0; u < window->units.size(); ++u) {
    if (dataset_->units[u].columns.empty()) continue;
    UnblockLocked(window, static_cast<int32_t>(u));
  }
}

void Scan::Open(const std::shared_ptr<Window>& window) {
  Window& w = *window;
  {
    std::lock_guard lock(mutex_);
    for (size_t u = 0; u < w.units.size(); ++u) {
      if (IsOrderless(u)) UnblockLocked(window, static_cast<int32_t>(u));
    }
  }
  // While the first bytes are on their way.
  if (w.shuffled) ComputeOrder(&w);
  {
    std::lock_guard lock(mutex_);
    for (size_t u = 0; u < w.units.size(); ++u) {
      if (!IsOrderless(u)) UnblockLocked(window, static_cast<int32_t>(u));
    }
  }
  CountDown(window);
}

bool Scan::IsOrderless(size_t unit) const {
  return dataset_->units[unit].kind == Unit::Kind::kNested;
}

void Scan::ComputeOrder(Window* window) {
  {
    std::lock_guard lock(mutex_);
    if (!spare_shuffles_.empty()) {
      window->shuffle = std::move(spare_shuffles_.back());
      spare_shuffles_.pop_back();
    }
  }
  MakeShuffle(plan_.keys[static_cast<size_t>(window->index)],
              static_cast<uint32_t>(window->rows), &window->shuffle);
  const auto any = [this](auto wanted) {
    return std::any_of(dataset_->units.begin(), dataset_->units.end(), wanted);
  };
  if (any([](const Unit& u) { return u.kind == Unit::Kind::kNested; })) {
    window->order.rows = RowsOf(window->shuffle, window->takes);
  }
  if (any([](const Unit& u) { return u.row_by_row || u.kind == Unit::Kind::kPadded; })) {
    FindOutputs(window->shuffle, window->takes, &window->order);
  }
}

void Scan::CutParts(Window* window) const {
  const int64_t begin = first_output_[static_cast<size_t>(window->index)];
  const int64_t end = begin + window->output_rows;
  const int64_t real = plan_.rows - plan_.padding;
  for (int64_t at = begin; at < end;) {
    Part part;
    part.batch = at / plan_.batch_rows;
    part.first = at - begin;
    part.offset = at - part.batch * plan_.batch_rows;
    part.rows = std::min(end - at, BatchRows(part.batch) - part.offset);
    part.real_rows = std::clamp<int64_t>(real - at, 0, part.rows);
    part.whole = part.rows == BatchRows(part.batch);
    at += part.rows;
    window->parts.push_back(std::move(part));
  }
}

Status Scan::MakeStreams(Window* window, int32_t unit, const IndexFiles& indexes,
                         std::span<std::optional<int64_t>> seen_cached) {
  WindowUnit& state = window->units[static_cast<size_t>(unit)];
  for (int32_t column : dataset_->units[static_cast<size_t>(unit)].columns) {
    const ColumnSpec& spec = dataset_->columns[static_cast<size_t>(column)];
    for (size_t p = 0; p < window->pieces.size(); ++p) {
      if (!window->fresh[p]) continue;
      const auto file = static_cast<int32_t>(window->pieces[p].file);
      const auto row_group = static_cast<int32_t>(window->pieces[p].row_group);
      if (!spec.HasLeaf(file)) {
        state.streams.push_back(nullptr);
        state.pages.emplace_back();
        continue;
      }
      const FileSpec& file_spec = dataset_->files.spec(file);
      auto range =
          ChunkRange(file_spec, row_group, spec.leaves[static_cast<size_t>(file)]);
      const Place place{.file = file_spec.path,
                        .row_group = row_group,
                        .column = spec.name,
                        .file_index = file};
      if (!range.ok()) return At(range.status(), place);
      const FetchContext fetch = Fetch();
      auto pages =
          SelectPages(fetch, file, row_group, spec.leaves[static_cast<size_t>(file)],
                      *range, dataset_->Bits(file, row_group), IndexesOf(indexes, file));
      if (!pages.ok()) return At(pages.status(), place);
      if (!dataset_->files.OnDisk(file, pages->ranges)) {
        state.remote.push_back({state.streams.size(), file, std::move(pages->ranges)});
        state.streams.push_back(nullptr);
      } else {
        state.streams.push_back(
            MakeLocalStream(fetch, file, std::move(pages->ranges),
                            {.segment_bytes = options_.segment_bytes,
                             .priority = Priority(window->index, unit),
                             .cancelled = cancelled_},
                            &seen_cached[p]));
        state.fetch_bytes += state.streams.back()->MemoryBytes();
      }
      state.pages.push_back(*std::move(pages));
    }
  }
  const auto lacks = [](const auto& stream) { return stream == nullptr; };
  if (state.remote.empty() && std::ranges::all_of(state.streams, lacks)) {
    state.streams.clear();
  }
  return Status::OK();
}

FetchContext Scan::Fetch() const {
  FetchContext fetch = fetch_;
  if (!begun_) fetch.counters = &dataset_->counters_ahead;
  return fetch;
}

}  // namespace fastload
