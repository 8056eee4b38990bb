#include "fastload/collate/packed_rows.h"

#include <algorithm>
#include <cstring>

#include "fastload/base/stream_copy.h"

namespace fastload {
namespace {

// The number of segments by which prefetches of offsets, and then of items, run ahead.
constexpr size_t kSegmentOffsetsAhead = 32;
constexpr size_t kSegmentItemsAhead = 8;

void PrefetchSegment(const StagedLists& from, std::span<const Segment> segments, size_t i,
                     int64_t item) {
  if (i + kSegmentOffsetsAhead < segments.size()) {
    const Segment& ahead = segments[i + kSegmentOffsetsAhead];
    if (ahead.row != Segment::kPadding) {
      const auto [rows, row] = from.Find(ahead.row);
      __builtin_prefetch(rows->offsets[0].data() + row);
    }
  }
  if (i + kSegmentItemsAhead < segments.size()) {
    const Segment& ahead = segments[i + kSegmentItemsAhead];
    if (ahead.row != Segment::kPadding) {
      const auto [rows, row] = from.Find(ahead.row);
      const int64_t begin =
          rows->offsets[0][static_cast<size_t>(row)] + int64_t{ahead.first};
      rows->values.Prefetch(begin * item, int64_t{ahead.size} * item);
    }
  }
}

// Fills `bytes` bytes with whole items.
void FillWith(const std::string& item, int64_t bytes, uint8_t* out) {
  const auto size = static_cast<int64_t>(item.size());
  if (bytes <= 0) return;
  std::ranges::copy(item, out);
  for (int64_t done = size; done < bytes; done *= 2) {
    std::memcpy(out + done, out, static_cast<size_t>(std::min(done, bytes - done)));
  }
}

// Writes start, start + step, ...: whole cache lines past the caches, since nobody reads
// the numbers soon, and the ends through the caches. A line whose parts go both ways is
// written to memory twice.
void StreamNumbers(int32_t start, int32_t step, int64_t count, int32_t* out) {
  int64_t i = 0;
  const auto value = [&](int64_t at) { return start + step * static_cast<int32_t>(at); };
#if defined(__SSE2__)
  constexpr int64_t kPerWord = sizeof(__m128i) / sizeof(int32_t);
  constexpr int64_t kPerLine = kCacheLine / sizeof(int32_t);
  for (; i < count && reinterpret_cast<uintptr_t>(out + i) % kCacheLine != 0; ++i) {
    out[i] = value(i);
  }
  __m128i numbers = _mm_set_epi32(value(i + 3), value(i + 2), value(i + 1), value(i));
  const __m128i more = _mm_set1_epi32(step * static_cast<int32_t>(kPerWord));
  for (const int64_t last = count - kPerLine; i <= last; i += kPerLine) {
    for (int64_t word = i; word < i + kPerLine; word += kPerWord) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + word), numbers);
      numbers = _mm_add_epi32(numbers, more);
    }
  }
#endif
  for (; i < count; ++i) out[i] = value(i);
}

// Calls fn(number, begin, end) for each segment, with its number in its packed row.
template <typename Fn>
void ForEachSegment(std::span<const int64_t> offsets, int64_t length, const Fn& fn) {
  int32_t number = 0;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    number = offsets[i] % length == 0 ? 0 : number + 1;
    fn(i, number, offsets[i], offsets[i + 1]);
  }
}

}  // namespace

void WriteSegments(const StagedLists& from, std::span<const Segment> segments,
                   const std::string& padding, int64_t first, uint8_t* base,
                   const int64_t* numbers) {
  auto* offsets = reinterpret_cast<int64_t*>(base + numbers[0]);
  uint8_t* values = base + numbers[2];
  const auto item = static_cast<int64_t>(padding.size());
  int64_t end = 0;
  // Else whoever writes the lists before writes the offset, perhaps now.
  if (first == 0) *offsets = 0;
  ++offsets;
  for (size_t i = 0; i < segments.size(); ++i) {
    PrefetchSegment(from, segments, i, item);
    const Segment& segment = segments[i];
    const int64_t size = segment.size;
    if (segment.row == Segment::kPadding) {
      FillWith(padding, size * item, values + end * item);
    } else {
      const auto [rows, row] = from.Find(segment.row);
      const int64_t begin =
          rows->offsets[0][static_cast<size_t>(row)] + int64_t{segment.first};
      rows->values.Copy(begin * item, size * item, values + end * item);
    }
    end += size;
    *offsets++ = first + end;
  }
}

PackedOutputs::PackedOutputs(const std::vector<OutputSpec>& outputs, const Layout& layout)
    : length_(layout.pack_length()) {
  bool found = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Layout::Slot& slot = layout.slot(static_cast<int32_t>(i));
    const OutputKind kind = outputs[i].kind;
    if (kind == OutputKind::kFile) file_ = slot;
    if (kind == OutputKind::kRow) row_ = slot;
    if (kind == OutputKind::kFirst) first_ = slot;
    if (kind == OutputKind::kRealRow) real_ = slot;
    if (kind == OutputKind::kRagged && !found) {
      lists_ = slot;
      found = true;
    }
    if (OfPackedRows(kind)) outputs_.push_back({kind, slot});
  }
}

void PackedOutputs::Write(uint8_t* base, const Layout::Areas& areas) const {
  const int64_t* const lists = areas.numbers.data() + lists_.number;
  const auto* begin = reinterpret_cast<const int64_t*>(base + lists[0]);
  const std::span offsets(begin, static_cast<size_t>(areas.rows) + 1);
  const auto* rows = reinterpret_cast<const int64_t*>(Layout::Address(base, areas, row_));
  for (const Output& output : outputs_) {
    uint8_t* const to = base + areas.numbers[static_cast<size_t>(output.slot.number)];
    auto* const ints = reinterpret_cast<int32_t*>(to);
    auto* const longs = reinterpret_cast<int64_t*>(to);
    // Writes, for each packed row, what its first segment has in the column `slot`.
    const auto write_firsts = [&](const Layout::Slot& slot, auto* out) {
      const auto* column =
          reinterpret_cast<decltype(out)>(Layout::Address(base, areas, slot));
      ForEachSegment(offsets, length_, [&](size_t i, int32_t number, int64_t, int64_t) {
        if (number == 0) *out++ = column[i];
      });
    };
    switch (output.kind) {
      case OutputKind::kDocument:
        ForEachSegment(
            offsets, length_, [&](size_t i, int32_t number, int64_t first, int64_t end) {
              StreamNumbers(rows[i] < 0 ? -1 : number, 0, end - first, ints + first);
            });
        break;
      case OutputKind::kPosition:
        ForEachSegment(offsets, length_,
                       [&](size_t i, int32_t, int64_t first, int64_t end) {
                         StreamNumbers(0, rows[i] < 0 ? 0 : 1, end - first, ints + first);
                       });
        break;
      case OutputKind::kEdges:
        std::transform(offsets.begin(), offsets.end(), ints,
                       [](int64_t offset) { return static_cast<int32_t>(offset); });
        break;
      case OutputKind::kLongest: {
        int64_t longest = 0;
        for (size_t i = 0; i + 1 < offsets.size(); ++i) {
          longest = std::max(longest, offsets[i + 1] - offsets[i]);
        }
        *ints = static_cast<int32_t>(longest);
        break;
      }
      case OutputKind::kFirstFile:
        write_firsts(file_, ints);
        break;
      case OutputKind::kFirstRow:
        write_firsts(row_, longs);
        break;
      case OutputKind::kFirstItem:
        write_firsts(first_, longs);
        break;
      case OutputKind::kFirstReal:
        write_firsts(real_, to);
        break;
      default:
        break;
    }
  }
  StreamFence();
}

}  // namespace fastload
