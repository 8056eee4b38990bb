#include "fastload/nested_window.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace fastload {
namespace {

constexpr int64_t kCacheLine = 64;
// How many rows ahead offsets, and then what they point to, are brought into the cache:
// far enough for a read from memory to end while rows of some hundred bytes are copied.
constexpr int64_t kOffsetsAhead = 32;
constexpr int64_t kItemsAhead = 8;
// Of a row, brought into the cache ahead; the processor finds the rest by itself.
constexpr int64_t kAheadBytes = 4 * kCacheLine;

// What the outermost level points to.
struct Items {
  const uint8_t* data;
  int64_t bytes;  // of one
};

Items ItemsOf(const NestedRows& from, int64_t item) {
  if (from.offsets.size() == 1) return {from.values.data(), item};
  return {reinterpret_cast<const uint8_t*>(from.offsets[1].data()), sizeof(int64_t)};
}

// Calls fn(row) for each row in turn.
template <typename Fn>
void ForEachTaken(const NestedRows& from, const TakenRows& taken, Items items,
                  const Fn& fn) {
  if (taken.rows == nullptr) {
    for (int64_t i = 0; i < taken.count; ++i) fn(taken.first + i);
    return;
  }
  const int64_t* offsets = from.offsets[0].data();
  for (int64_t i = 0; i < taken.count; ++i) {
    if (i + kOffsetsAhead < taken.count) {
      __builtin_prefetch(offsets + taken.rows[i + kOffsetsAhead]);
    }
    if (i + kItemsAhead < taken.count) {
      const int64_t* ahead = offsets + taken.rows[i + kItemsAhead];
      const int64_t bytes = std::min((ahead[1] - ahead[0]) * items.bytes, kAheadBytes);
      for (int64_t at = 0; at < bytes; at += kCacheLine) {
        __builtin_prefetch(items.data + ahead[0] * items.bytes + at);
      }
    }
    fn(taken.rows[i]);
  }
}

void Copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Appends rows to one ragged output.
class RaggedWriter {
 public:
  RaggedWriter(const NestedRows& from, int64_t item, uint8_t* base,
               const int64_t* numbers)
      : from_(from), item_(item) {
    for (const std::vector<int64_t>& offsets : from.offsets) {
      auto* out = reinterpret_cast<int64_t*>(base + *numbers);
      *out = 0;
      levels_.push_back({.from = offsets.data(), .next = out + 1});
      numbers += 2;
    }
    values_ = base + *numbers;
  }

  void Append(int64_t first, int64_t rows) {
    int64_t begin = first;
    int64_t end = first + rows;
    int64_t outer_begin = begin;
    int64_t outer_end = end;
    for (Level& level : levels_) {
      outer_begin = begin;
      outer_end = end;
      begin = level.from[outer_begin];
      end = level.from[outer_end];
      const int64_t shift = level.end - begin;
      for (int64_t i = outer_begin + 1; i <= outer_end; ++i) {
        *level.next++ = level.from[i] + shift;
      }
      level.end += end - begin;
    }
    if (from_.views.empty()) {
      Copy(values_, from_.values.data() + begin * item_, (end - begin) * item_);
      values_ += (end - begin) * item_;
      return;
    }
    for (int64_t i = outer_begin; i < outer_end; ++i) {
      const ByteView& view = from_.views[static_cast<size_t>(i)];
      Copy(values_, view.data, view.size);
      values_ += view.size;
    }
  }

 private:
  struct Level {
    const int64_t* from;
    int64_t* next;    // where the next offset goes
    int64_t end = 0;  // of what has been appended
  };

  const NestedRows& from_;
  const int64_t item_;
  std::vector<Level> levels_;
  uint8_t* values_ = nullptr;
};

// Lists of one level of items of fixed width, the usual case: without a writer's state.
void WriteFlat(const NestedRows& from, const TakenRows& taken, int64_t item,
               int64_t* offsets, uint8_t* values) {
  const int64_t* starts = from.offsets[0].data();
  const uint8_t* items = from.values.data();
  int64_t end = 0;
  *offsets++ = 0;
  ForEachTaken(from, taken, {items, item}, [&](int64_t row) {
    const int64_t count = starts[row + 1] - starts[row];
    Copy(values + end * item, items + starts[row] * item, count * item);
    end += count;
    *offsets++ = end;
  });
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

void CountSizes(const NestedRows& from, const TakenRows& taken, int64_t item,
                std::span<int64_t> sizes) {
  std::fill(sizes.begin(), sizes.end(), 0);
  const auto count = [&](int64_t begin, int64_t end) {
    for (size_t level = 0; level < sizes.size(); ++level) {
      const int64_t* offsets = from.offsets[level].data();
      begin = offsets[begin];
      end = offsets[end];
      sizes[level] += end - begin;
    }
  };
  if (taken.rows == nullptr) {
    count(taken.first, taken.first + taken.count);
  } else {
    for (int64_t i = 0; i < taken.count; ++i) count(taken.rows[i], taken.rows[i] + 1);
  }
  sizes.back() *= item;
}

void WriteRagged(const NestedRows& from, const TakenRows& taken, int64_t item,
                 uint8_t* base, const int64_t* numbers) {
  if (taken.rows != nullptr && from.offsets.size() == 1) {
    return WriteFlat(from, taken, item, reinterpret_cast<int64_t*>(base + numbers[0]),
                     base + numbers[2]);
  }
  RaggedWriter writer(from, item, base, numbers);
  if (taken.rows == nullptr) return writer.Append(taken.first, taken.count);
  ForEachTaken(from, taken, ItemsOf(from, item),
               [&](int64_t row) { writer.Append(row, 1); });
}

void WritePadded(const NestedRows& from, const TakenRows& taken, int64_t item,
                 const std::string& padding, uint8_t* out) {
  const int64_t* starts = from.offsets[0].data();
  const uint8_t* items = from.values.data();
  const auto row_bytes = static_cast<int64_t>(padding.size());
  const auto* pad = reinterpret_cast<const uint8_t*>(padding.data());
  ForEachTaken(from, taken, {items, item}, [&](int64_t row) {
    const int64_t bytes = std::min((starts[row + 1] - starts[row]) * item, row_bytes);
    Copy(out, items + starts[row] * item, bytes);
    Copy(out + bytes, pad + bytes, row_bytes - bytes);
    out += row_bytes;
  });
}

void WriteLengths(const NestedRows& from, const TakenRows& taken, int64_t most,
                  int64_t* out) {
  const int64_t* starts = from.offsets[0].data();
  for (int64_t i = 0; i < taken.count; ++i) {
    const int64_t row = taken[i];
    out[i] = std::min(starts[row + 1] - starts[row], most);
  }
}

void WriteValid(const NestedRows& from, const TakenRows& taken, uint8_t* out) {
  const uint8_t* valid = from.valid.data();
  for (int64_t i = 0; i < taken.count; ++i) out[i] = valid[taken[i]];
}

}  // namespace fastload
