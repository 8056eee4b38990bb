// Columns of bytes in a window: views are staged, then the viewed bytes are copied.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "fastload/base/short_copy.h"
#include "fastload/collate/window.h"
#include "fastload/collate/window_runs.h"

namespace fastload {

Result<std::unique_ptr<StagedBytes>> StagedBytes::Make(const Window& window, bool valid) {
  auto staged = std::make_unique<StagedBytes>();
  const int64_t views = window.rows * static_cast<int64_t>(sizeof(ByteView));
  ARROW_ASSIGN_OR_RAISE(staged->memory,
                        window.pool->Allocate(views + (valid ? window.rows : 0)));
  staged->views = reinterpret_cast<ByteView*>(staged->memory->data());
  staged->valid = valid ? staged->memory->data() + views : nullptr;
  for (size_t i = 0; i < window.shares.size(); ++i) {
    staged->arenas.emplace_back(window.pool);
  }
  return staged;
}

Status WindowTask::StageBytes() {
  Status made;
  std::call_once(state_.staging, [&] {
    auto staged = StagedBytes::Make(*window_, !unit_.valid_slots.empty());
    made = staged.status();
    if (made.ok()) state_.bytes = std::move(*staged);
  });
  ARROW_RETURN_NOT_OK(made);
  if (state_.bytes == nullptr)
    return Status::OutOfMemory("Expected memory for views of bytes, got none");
  StagedBytes& staged = *state_.bytes;
  const bool valid = staged.valid != nullptr;
  ByteArena& arena = staged.arenas[static_cast<size_t>(task_)];
  return ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    return cursor.bytes->Read(rows, staged.views + first,
                              valid ? staged.valid + first : nullptr, &arena);
  });
}

void WindowTask::CountBytes() {
  for (const Part& part : Parts()) {
    int64_t bytes = 0;
    ForEachRowRun(*window_, part, [&](const RowRun& run) {
      const ByteView* views = state_.bytes->views + run.row;
      for (int64_t i = 0; i < run.rows; ++i) {
        bytes += views[run.index == nullptr ? i : run.index[i]].size;
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
      ForEachRowRun(*window_, part, [&](const RowRun& run) {
        const ByteView* views = staged.views + run.row;
        for (int64_t i = 0; i < run.rows; ++i) {
          if (run.index != nullptr && i + kViewsAhead < run.rows) {
            __builtin_prefetch(views + run.index[i + kViewsAhead]);
            __builtin_prefetch(views[run.index[i + kAhead]].data);
          }
          const ByteView& view = views[run.index == nullptr ? i : run.index[i]];
          ShortCopy(values + end, view.data, view.size);
          end += view.size;
          *offsets++ = end;
        }
      });
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(base, part.areas, slot);
      ForEachRowRun(*window_, part, [&](const RowRun& run) {
        const uint8_t* rows = staged.valid + run.row;
        for (int64_t i = 0; i < run.rows; ++i) {
          *out++ = rows[run.index == nullptr ? i : run.index[i]];
        }
      });
    }
  }
}

}  // namespace fastload
