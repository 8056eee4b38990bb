// Columns of bytes in a window: views are staged, then what they show is copied.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "fastload/gather.h"
#include "fastload/window.h"
#include "fastload/window_runs.h"

namespace fastload {

Status WindowTask::StageBytes() {
  const bool valid = !unit_.valid_slots.empty();
  const bool dealt = window_->dealt();
  std::call_once(state_.staging, [&] {
    auto staged = std::make_unique<StagedBytes>();
    staged->views.resize(static_cast<size_t>(window_->slots()));
    if (valid) staged->valid.resize(static_cast<size_t>(window_->slots()));
    staged->owners.resize(window_->shares.size());
    state_.bytes = std::move(staged);
  });
  StagedBytes& staged = *state_.bytes;
  auto& owners = staged.owners[static_cast<size_t>(task_)];
  std::vector<ByteView> views(dealt ? kBlockRows : 0);
  std::vector<uint8_t> valids(dealt && valid ? kBlockRows : 0);
  return ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    if (!dealt) {
      return cursor.bytes->Read(rows, staged.views.data() + first,
                                valid ? staged.valid.data() + first : nullptr, &owners);
    }
    for (int64_t end = first + rows; first < end; first += kBlockRows) {
      const int64_t n = std::min(kBlockRows, end - first);
      ARROW_RETURN_NOT_OK(
          cursor.bytes->Read(n, views.data(), valid ? valids.data() : nullptr, &owners));
      const uint32_t* slots = window_->shuffle.slots.data() + first;
      for (int64_t i = 0; i < n; ++i)
        staged.views[slots[i]] = views[static_cast<size_t>(i)];
      if (valid) Scatter(valids.data(), 1, slots, n, staged.valid.data());
    }
    return Status::OK();
  });
}

void WindowTask::CountBytes() {
  state_.sizes.clear();
  for (const Part& part : window_->parts) {
    int64_t bytes = 0;
    ForEachRun(*window_, part, [&](const SlotRun& run) {
      const ByteView* bucket = state_.bytes->views.data() + run.bucket;
      for (int64_t i = 0; i < run.rows; ++i) {
        bytes += bucket[run.within == nullptr ? i : run.within[i]].size;
      }
    });
    state_.sizes.push_back(bytes);
  }
}

void WindowTask::FillBytes() {
  const StagedBytes& staged = *state_.bytes;
  for (const Part& part : Parts()) {
    uint8_t* base = part.block->data();
    for (const Layout::Slot& slot : unit_.slots) {
      const int64_t* numbers = part.areas.numbers.data() + slot.number;
      auto* offsets = reinterpret_cast<int64_t*>(base + numbers[0]);
      uint8_t* values = base + numbers[2];
      int64_t end = 0;
      *offsets++ = 0;
      ForEachRun(*window_, part, [&](const SlotRun& run) {
        const ByteView* bucket = staged.views.data() + run.bucket;
        for (int64_t i = 0; i < run.rows; ++i) {
          const ByteView& view = bucket[run.within == nullptr ? i : run.within[i]];
          if (view.size > 0) {
            std::memcpy(values + end, view.data, static_cast<size_t>(view.size));
          }
          end += view.size;
          *offsets++ = end;
        }
      });
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      uint8_t* out = Layout::Address(base, part.areas, slot);
      ForEachRun(*window_, part, [&](const SlotRun& run) {
        const uint8_t* bucket = staged.valid.data() + run.bucket;
        for (int64_t i = 0; i < run.rows; ++i) {
          *out++ = bucket[run.within == nullptr ? i : run.within[i]];
        }
      });
    }
  }
}

}  // namespace fastload
