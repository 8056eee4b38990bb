#include "fastload/collate/nested_window.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastload/base/prefetch.h"
#include "fastload/base/stream_copy.h"

namespace fastload {
namespace {

// The number of rows by which prefetches of offsets, and then of items, run ahead: far
// enough for a read from memory to finish while rows of some hundred bytes are copied.
constexpr int64_t kOffsetsAhead = 32;
constexpr int64_t kItemsAhead = 8;

// Prefetches the offsets, then the items, of rows behind row i.
inline void Prefetch(const StagedLists& from, const TakenRows& taken, int64_t item,
                     int64_t i) {
  if (i + kOffsetsAhead < taken.count) {
    const auto [rows, row] = from.Find(taken.rows[i + kOffsetsAhead]);
    __builtin_prefetch(rows->offsets[0].data() + row);
  }
  // Without items to copy, only offsets are followed.
  if (i + kItemsAhead < taken.count && (item > 0 || from.levels() > 1)) {
    const auto [rows, row] = from.Find(taken.rows[i + kItemsAhead]);
    const int64_t* ahead = rows->offsets[0].data() + row;
    if (rows->offsets.size() > 1) {
      PrefetchFirst(rows->offsets[1].data() + ahead[0],
                    (ahead[1] - ahead[0]) * static_cast<int64_t>(sizeof(int64_t)));
    } else {
      rows->values.Prefetch(ahead[0] * item, (ahead[1] - ahead[0]) * item);
    }
  }
}

// Calls fn(rows, first, count) for runs of the taken rows, in order.
template <typename Fn>
void ForEachTaken(const StagedLists& from, const TakenRows& taken, int64_t item,
                  const Fn& fn) {
  if (taken.rows == nullptr) return from.ForEachShare(taken.first, taken.count, fn);
  for (int64_t i = 0; i < taken.count; ++i) {
    Prefetch(from, taken, item, i);
    const auto [rows, row] = from.Find(taken.rows[i]);
    fn(*rows, row, 1);
  }
}

void Copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// A writer that appends rows to one ragged output.
class RaggedWriter {
 public:
  RaggedWriter(size_t levels, int64_t item, uint8_t* base, const int64_t* numbers)
      : item_(item), levels_(levels) {
    for (Level& level : levels_) {
      auto* out = reinterpret_cast<int64_t*>(base + *numbers);
      *out = 0;
      level.next = out + 1;
      numbers += 2;
    }
    values_ = base + *numbers;
  }

  void Append(const NestedRows& from, int64_t first, int64_t rows) {
    int64_t begin = first;
    int64_t end = first + rows;
    int64_t outer_begin = begin;
    int64_t outer_end = end;
    for (size_t l = 0; l < levels_.size(); ++l) {
      Level& level = levels_[l];
      const int64_t* offsets = from.offsets[l].data();
      outer_begin = begin;
      outer_end = end;
      begin = offsets[outer_begin];
      end = offsets[outer_end];
      const int64_t shift = level.end - begin;
      for (int64_t i = outer_begin + 1; i <= outer_end; ++i) {
        *level.next++ = offsets[i] + shift;
      }
      level.end += end - begin;
    }
    if (from.views.empty()) {
      from.values.Copy(begin * item_, (end - begin) * item_, values_);
      values_ += (end - begin) * item_;
      return;
    }
    for (int64_t i = outer_begin; i < outer_end; ++i) {
      const ByteView& view = from.views[static_cast<size_t>(i)];
      Copy(values_, view.data, view.size);
      values_ += view.size;
    }
  }

 private:
  struct Level {
    int64_t* next = nullptr;  // address of the next offset
    int64_t end = 0;          // end of the appended children
  };

  const int64_t item_;
  std::vector<Level> levels_;
  uint8_t* values_ = nullptr;
};

// Writes lists of one level with fixed-width items, the usual case, without a
// RaggedWriter's state.
void WriteFlat(const StagedLists& from, const TakenRows& taken, int64_t item,
               int64_t* offsets, uint8_t* values) {
  int64_t end = 0;
  *offsets++ = 0;
  for (int64_t i = 0; i < taken.count; ++i) {
    Prefetch(from, taken, item, i);
    const auto [rows, row] = from.Find(taken.rows[i]);
    const int64_t* starts = rows->offsets[0].data() + row;
    const int64_t count = starts[1] - starts[0];
    rows->values.Copy(starts[0] * item, count * item, values + end * item);
    end += count;
    *offsets++ = end;
  }
}

}  // namespace

void AddByteLevel(NestedRows* rows) {
  std::vector<int64_t> offsets;
  offsets.reserve(rows->views.size() + 1);
  int64_t end = 0;
  offsets.push_back(0);
  for (const ByteView& view : rows->views) {
    end += view.size;
    offsets.push_back(end);
  }
  rows->offsets.push_back(std::move(offsets));
}

StagedLists::StagedLists(BlockPool* pool, FillBudget* fills,
                         std::vector<int64_t> first_rows)
    : first_rows_(std::move(first_rows)) {
  for (size_t i = 0; i < first_rows_.size(); ++i) {
    shares_.push_back(std::make_unique<Share>(pool, fills));
  }
}

StagedLists::Row StagedLists::FindShare(int64_t row) const {
  size_t share = 0;
  for (size_t i = 1; i < first_rows_.size(); ++i) share += row >= first_rows_[i];
  return {&shares_[share]->rows, row - first_rows_[share]};
}

void CountSizes(const StagedLists& from, const TakenRows& taken, int64_t item,
                std::span<int64_t> sizes) {
  std::fill(sizes.begin(), sizes.end(), 0);
  const auto count = [&](const NestedRows& rows, int64_t begin, int64_t n) {
    int64_t end = begin + n;
    for (size_t level = 0; level < sizes.size(); ++level) {
      const int64_t* offsets = rows.offsets[level].data();
      begin = offsets[begin];
      end = offsets[end];
      sizes[level] += end - begin;
    }
  };
  ForEachTaken(from, taken, 0, count);
  sizes.back() *= item;
}

void WriteRagged(const StagedLists& from, const TakenRows& taken, int64_t item,
                 uint8_t* base, const int64_t* numbers) {
  const size_t levels = from.levels();
  if (taken.rows != nullptr && levels == 1) {
    return WriteFlat(from, taken, item, reinterpret_cast<int64_t*>(base + numbers[0]),
                     base + numbers[2]);
  }
  RaggedWriter writer(levels, item, base, numbers);
  ForEachTaken(from, taken, item, [&](const NestedRows& rows, int64_t first, int64_t n) {
    writer.Append(rows, first, n);
  });
}

PaddedRows::PaddedRows(const Unit::Pad& pad, int64_t item)
    : item_(pad.mask ? 1 : item),
      mask_(pad.mask),
      keep_last_(pad.keep_last),
      pad_left_(pad.pad_left) {
  const auto row_bytes = static_cast<size_t>(pad.slot.stride);
  empty_.reserve(row_bytes);
  while (empty_.size() < row_bytes) empty_ += pad.element;
}

void PaddedRows::Write(const NestedRows& from, int64_t row, uint8_t* out) const {
  const auto row_bytes = static_cast<int64_t>(empty_.size());
  const auto* empty = reinterpret_cast<const uint8_t*>(empty_.data());
  const int64_t* starts = from.offsets[0].data() + row;
  const int64_t bytes = std::min((starts[1] - starts[0]) * item_, row_bytes);
  const int64_t padding = row_bytes - bytes;
  if (pad_left_) {
    StreamCopy(out, empty, padding);
    out += padding;
  }
  if (mask_) {
    std::memset(out, 1, static_cast<size_t>(bytes));
  } else {
    from.values.StreamTo(keep_last_ ? starts[1] * item_ - bytes : starts[0] * item_,
                         bytes, out);
  }
  if (!pad_left_) StreamCopy(out + bytes, empty + bytes, padding);
}

void PaddedRows::WriteAll(const StagedLists& from, const TakenRows& taken,
                          uint8_t* out) const {
  ForEachTaken(from, taken, item_, [&](const NestedRows& rows, int64_t row, int64_t n) {
    for (const int64_t end = row + n; row < end; ++row) {
      Write(rows, row, out);
      out += empty_.size();
    }
  });
}

void WriteLengths(const StagedLists& from, const TakenRows& taken, int64_t most,
                  int64_t* out) {
  ForEachTaken(from, taken, 0, [&](const NestedRows& rows, int64_t row, int64_t n) {
    for (const int64_t end = row + n; row < end; ++row) {
      *out++ = rows.Length(row, most);
    }
  });
}

void WriteValid(const StagedLists& from, const TakenRows& taken, uint8_t* out) {
  ForEachTaken(from, taken, 0, [&](const NestedRows& rows, int64_t row, int64_t n) {
    out = std::copy_n(rows.valid.data() + row, n, out);
  });
}

}  // namespace fastload
