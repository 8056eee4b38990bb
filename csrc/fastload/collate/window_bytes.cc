// Columns of bytes in a window: views are staged, then the viewed bytes are copied.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "fastload/base/gather.h"
#include "fastload/base/short_copy.h"
#include "fastload/collate/window.h"
#include "fastload/collate/window_runs.h"

namespace fastload {
namespace {

// Calls fn(first, rows, index) for the runs of a part: the rows, or slots, first +
// index[i], or those from `first` on if the index is null.
template <typename Fn>
void ForEachStagedRun(const Window& window, const Part& part, bool by_slot,
                      const Fn& fn) {
  if (by_slot) {
    ForEachSlotRun(window, part,
                   [&](const SlotRun& run) { fn(run.bucket, run.rows, run.within); });
  } else {
    ForEachRowRun(window, part,
                  [&](const RowRun& run) { fn(run.row, run.rows, run.index); });
  }
}

}  // namespace

Result<std::unique_ptr<StagedBytes>> StagedBytes::Make(const Window& window, bool valid,
                                                       bool by_slot) {
  auto staged = std::make_unique<StagedBytes>();
  const int64_t slots = by_slot ? window.slots() : window.rows;
  const int64_t views = slots * static_cast<int64_t>(sizeof(ByteView));
  ARROW_ASSIGN_OR_RAISE(staged->memory,
                        window.pool->Allocate(views + (valid ? slots : 0)));
  staged->views = reinterpret_cast<ByteView*>(staged->memory->data());
  staged->valid = valid ? staged->memory->data() + views : nullptr;
  staged->by_slot = by_slot;
  for (size_t i = 0; i < window.shares.size(); ++i) {
    staged->arenas.emplace_back(window.pool);
  }
  return staged;
}

Status WindowTask::StageBytes() {
  Status made;
  std::call_once(state_.staging, [&] {
    auto staged = StagedBytes::Make(*window_, !unit_.valid_slots.empty(),
                                    GoesBySlot(sizeof(ByteView)));
    made = staged.status();
    if (made.ok()) state_.bytes = std::move(*staged);
  });
  ARROW_RETURN_NOT_OK(made);
  if (state_.bytes == nullptr)
    return Status::OutOfMemory("Expected memory for views of bytes, got none");
  StagedBytes& staged = *state_.bytes;
  const bool valid = staged.valid != nullptr;
  ByteArena& arena = staged.arenas[static_cast<size_t>(task_)];
  std::vector<ByteView> views(staged.by_slot ? kBlockRows : 0);
  std::vector<uint8_t> valids(staged.by_slot && valid ? kBlockRows : 0);
  return ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    if (!staged.by_slot) {
      return cursor.bytes->Read(rows, staged.views + first,
                                valid ? staged.valid + first : nullptr, &arena);
    }
    for (int64_t end = first + rows; first < end; first += kBlockRows) {
      const int64_t n = std::min(kBlockRows, end - first);
      ARROW_RETURN_NOT_OK(
          cursor.bytes->Read(n, views.data(), valid ? valids.data() : nullptr, &arena));
      const uint32_t* slots = window_->InTwoSteps().slots.data() + first;
      for (int64_t i = 0; i < n; ++i) {
        staged.views[slots[i]] = views[static_cast<size_t>(i)];
      }
      if (valid) Scatter(valids.data(), 1, slots, n, staged.valid);
    }
    return Status::OK();
  });
}

void WindowTask::CountBytes() {
  for (const Part& part : Parts()) {
    int64_t bytes = 0;
    ForEachStagedRun(*window_, part, state_.bytes->by_slot,
                     [&](int64_t first, int64_t rows, const auto* index) {
                       const ByteView* views = state_.bytes->views + first;
                       for (int64_t i = 0; i < rows; ++i) {
                         bytes += views[index == nullptr ? i : index[i]].size;
                       }
                     });
    state_.sizes[static_cast<size_t>(&part - window_->parts.data())] = bytes;
  }
}

void WindowTask::FillBytes() {
  // The number of rows by which prefetches run ahead: long enough for a read from memory
  // to finish.
  constexpr int64_t kViewsAhead = 24;
  constexpr int64_t kAhead = 12;
  const StagedBytes& staged = *state_.bytes;
  for (const Part& part : Parts()) {
    uint8_t* base = part.block->data();
    for (const Layout::Slot& slot : unit_.slots) {
      const int64_t* numbers = part.areas.numbers.data() + slot.number;
      auto* offsets = reinterpret_cast<int64_t*>(base + numbers[0]);
      uint8_t* values = base + numbers[2];
      int64_t end = 0;
      *offsets++ = 0;
      const auto copy = [&](int64_t first, int64_t rows, const auto* index) {
        const ByteView* views = staged.views + first;
        for (int64_t i = 0; i < rows; ++i) {
          if (index != nullptr && i + kViewsAhead < rows) {
            __builtin_prefetch(views + index[i + kViewsAhead]);
            __builtin_prefetch(views[index[i + kAhead]].data);
          }
          const ByteView& view = views[index == nullptr ? i : index[i]];
          ShortCopy(values + end, view.data, view.size);
          end += view.size;
          *offsets++ = end;
        }
      };
      ForEachStagedRun(*window_, part, staged.by_slot, copy);
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(base, part.areas, slot);
      ForEachStagedRun(*window_, part, staged.by_slot,
                       [&](int64_t first, int64_t rows, const auto* index) {
                         const uint8_t* valid = staged.valid + first;
                         for (int64_t i = 0; i < rows; ++i) {
                           *out++ = valid[index == nullptr ? i : index[i]];
                         }
                       });
    }
  }
}

}  // namespace fastload
