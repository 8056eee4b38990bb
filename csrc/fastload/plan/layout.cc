#include "fastload/plan/layout.h"

#include <algorithm>
#include <cstring>

namespace fastload {
namespace {

// Returns the bytes of a row of a row-major output, or 0 for other outputs.
int64_t RowBytes(const OutputSpec& output, const std::vector<ColumnSpec>& columns) {
  if (output.kind == OutputKind::kComputed) {
    return ItemSize(output.dtype) * output.length;
  }
  if (output.columns.empty()) return 0;
  const int64_t item = ItemBytes(columns[static_cast<size_t>(output.columns[0])]);
  if (output.kind == OutputKind::kList) return item;
  if (output.kind == OutputKind::kPad) return item * output.length;
  if (output.kind == OutputKind::kMask) return output.length;
  const auto columns_of_row = static_cast<int64_t>(output.columns.size());
  if (output.kind == OutputKind::kStackValid) return columns_of_row;
  return output.kind == OutputKind::kStack ? item * columns_of_row : 0;
}

// More bytes than any memory has: larger numbers of bytes become this number. int64
// holds the sum of two of them.
constexpr int64_t kTooMany = int64_t{1} << 61;

int64_t Times(int64_t count, int64_t bytes) {
  int64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product)) return kTooMany;
  return std::min(product, kTooMany);
}

bool IsRowMajor(const OutputSpec& output) {
  return output.kind == OutputKind::kStack || output.kind == OutputKind::kList ||
         output.kind == OutputKind::kPad || output.kind == OutputKind::kMask ||
         output.kind == OutputKind::kStackValid ||
         (output.kind == OutputKind::kComputed && output.length > 0);
}

}  // namespace

DType Layout::OutputType(const OutputSpec& output,
                         const std::vector<ColumnSpec>& columns) {
  switch (output.kind) {
    case OutputKind::kColumn:
    case OutputKind::kStack:
    case OutputKind::kRagged:
    case OutputKind::kList:
    case OutputKind::kPad:
      return columns[static_cast<size_t>(output.columns.at(0))].dtype;
    case OutputKind::kMask:
    case OutputKind::kValid:
    case OutputKind::kStackValid:
    case OutputKind::kRealRow:
    case OutputKind::kFirstReal:
      return DType::kBool;
    case OutputKind::kFile:
    case OutputKind::kDocument:
    case OutputKind::kPosition:
    case OutputKind::kEdges:
    case OutputKind::kLongest:
    case OutputKind::kFirstFile:
      return DType::kInt32;
    case OutputKind::kLength:
    case OutputKind::kRow:
    case OutputKind::kFirst:
    case OutputKind::kFirstRow:
    case OutputKind::kFirstItem:
      return DType::kInt64;
    case OutputKind::kComputed:
      return output.dtype;
  }
  return DType::kUInt8;
}

Layout::Layout(const std::vector<ColumnSpec>& columns,
               const std::vector<OutputSpec>& outputs) {
  std::vector<int32_t> group_of(outputs.size(), -1);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (IsRowMajor(outputs[i]) || outputs[i].kind == OutputKind::kRagged ||
        OfPackedRows(outputs[i].kind)) {
      continue;
    }
    const DType dtype = OutputType(outputs[i], columns);
    auto found = std::find_if(groups_.begin(), groups_.end(),
                              [&](const Group& g) { return g.dtype == dtype; });
    if (found == groups_.end()) found = groups_.insert(groups_.end(), Group{dtype, 0});
    group_of[i] = static_cast<int32_t>(found - groups_.begin());
  }
  slots_.resize(outputs.size());
  auto number = static_cast<int32_t>(2 * groups_.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (group_of[i] >= 0) {
      Group& group = groups_[static_cast<size_t>(group_of[i])];
      slots_[i] = Slot{.number = 2 * group_of[i],
                       .column = group.columns++,
                       .stride = ItemSize(group.dtype)};
    } else if (IsRowMajor(outputs[i])) {
      row_bytes_.push_back(RowBytes(outputs[i], columns));
      slots_[i] =
          Slot{.number = number++, .stride = row_bytes_.back(), .row_major = true};
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].kind != OutputKind::kRagged) continue;
    const int32_t levels =
        RaggedLevels(columns[static_cast<size_t>(outputs[i].columns.at(0))]);
    slots_[i] = Slot{.number = number, .levels = levels, .first_size = sizes_};
    ragged_levels_.push_back(levels);
    number += 2 * levels + 2;
    sizes_ += levels;
    pack_length_ = std::max(pack_length_, outputs[i].length);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!OfPackedRows(outputs[i].kind)) continue;
    slots_[i] = Slot{.number = number};
    packed_.push_back(outputs[i].kind);
    number += 2;
  }
}

int64_t Layout::PackedElements(OutputKind kind, int64_t rows, int64_t elements) const {
  switch (kind) {
    case OutputKind::kDocument:
    case OutputKind::kPosition:
      return elements;
    case OutputKind::kEdges:
      return rows + 1;
    case OutputKind::kLongest:
      return 1;
    default:
      return elements / pack_length_;
  }
}

Layout::Areas Layout::Place(int64_t rows, std::span<const int64_t> sizes) const {
  Areas areas;
  areas.rows = rows;
  if (packed()) areas.elements = sizes.back();
  areas.numbers.reserve(2 * groups_.size() + row_bytes_.size() +
                        2 * ragged_levels_.size() + 2 * sizes.size() +
                        2 * packed_.size());
  int64_t end = 0;
  const auto take = [&end](int64_t bytes) {
    const int64_t start = end;
    end = std::min(end + RoundUp(bytes, kAlignment), kTooMany);
    return start;
  };
  for (const Group& group : groups_) {
    const int64_t pitch = RoundUp(rows * ItemSize(group.dtype), kAlignment);
    areas.numbers.push_back(take(Times(pitch, group.columns)));
    areas.numbers.push_back(pitch);
  }
  for (int64_t row_bytes : row_bytes_) {
    areas.numbers.push_back(take(Times(rows, row_bytes)));
  }
  auto size = sizes.begin();
  for (const int32_t levels : ragged_levels_) {
    int64_t lists = rows;
    for (int32_t level = 0; level < levels; ++level) {
      areas.numbers.push_back(take((lists + 1) * static_cast<int64_t>(sizeof(int64_t))));
      areas.numbers.push_back(lists);
      lists = *size++;  // lists of the next level, or bytes of the values
    }
    areas.numbers.push_back(take(lists));
    areas.numbers.push_back(lists);
  }
  for (const OutputKind kind : packed_) {
    const int64_t count = PackedElements(kind, rows, sizes.back());
    areas.numbers.push_back(take(count * ItemSize(OutputType({.kind = kind}, {}))));
    areas.numbers.push_back(count);
  }
  areas.bytes = std::max(end, kAlignment);
  return areas;
}

Layout::Areas Layout::From(const Areas& areas, int64_t row, int64_t element) const {
  Areas from = areas;
  int64_t* number = from.numbers.data();
  for (const Group& group : groups_) {
    *number += row * ItemSize(group.dtype);
    number += 2;
  }
  for (const int64_t row_bytes : row_bytes_) *number++ += row * row_bytes;
  for (size_t r = 0; r < ragged_levels_.size(); ++r, number += 4) {
    number[0] += row * static_cast<int64_t>(sizeof(int64_t));
    number[2] += element * (number[3] / areas.elements);
  }
  return from;
}

Layout::Areas Layout::PlaceMerged(std::span<const Source> sources) const {
  int64_t rows = 0;
  std::vector<int64_t> sizes(static_cast<size_t>(this->sizes()));
  const size_t first = 2 * groups_.size() + row_bytes_.size();
  for (const Source& source : sources) {
    rows += source.areas->rows;
    const int64_t* from = source.areas->numbers.data() + first;
    auto size = sizes.begin();
    for (const int32_t levels : ragged_levels_) {
      // The number of lists of the second level, of the third, ..., and the bytes of the
      // values.
      for (int32_t level = 1; level <= levels; ++level) *size++ += from[2 * level + 1];
      from += 2 * levels + 2;
    }
    if (packed()) sizes.back() += source.areas->elements;
  }
  return Place(rows, sizes);
}

void Layout::Merge(std::span<const Source> sources, uint8_t* to,
                   const Areas& areas) const {
  std::vector<int64_t> value_end(ragged_levels_.size());
  int64_t row = 0;
  for (const Source& source : sources) {
    const int64_t rows = source.areas->rows;
    const auto copy = [&](int64_t to_offset, int64_t from_offset, int64_t bytes) {
      std::memcpy(to + to_offset, source.base + from_offset, static_cast<size_t>(bytes));
    };
    const int64_t* from = source.areas->numbers.data();
    const int64_t* out = areas.numbers.data();
    for (const Group& group : groups_) {
      const int64_t item = ItemSize(group.dtype);
      for (int64_t c = 0; c < group.columns; ++c) {
        copy(out[0] + c * out[1] + row * item, from[0] + c * from[1], rows * item);
      }
      from += 2;
      out += 2;
    }
    for (int64_t row_bytes : row_bytes_) {
      copy(*out++ + row * row_bytes, *from++, rows * row_bytes);
    }
    for (size_t r = 0; r < ragged_levels_.size(); ++r) {
      int64_t first = row;  // lists of the level in the sources before
      for (int32_t level = 0; level < ragged_levels_[r]; ++level) {
        auto* offsets = reinterpret_cast<int64_t*>(to + out[0]) + first;
        const auto* from_offsets =
            reinterpret_cast<const int64_t*>(source.base + from[0]);
        if (first == 0) offsets[0] = 0;
        first = offsets[0];  // end of the previous lists
        for (int64_t i = 1; i <= from[1]; ++i) offsets[i] = first + from_offsets[i];
        from += 2;
        out += 2;
      }
      copy(out[0] + value_end[r], from[0], from[1]);
      value_end[r] += from[1];
      from += 2;
      out += 2;
    }
    row += rows;
  }
}

namespace {

// The lists, or at last the items, [first, end) of a level of a ragged output.
struct ListRange {
  int64_t first;
  int64_t end;
};

// Returns those that the lists `range` of a level have in the next level.
ListRange Below(const uint8_t* offsets, const ListRange& range) {
  const auto* const starts = reinterpret_cast<const int64_t*>(offsets);
  return {starts[range.first], starts[range.end]};
}

// Returns the bytes of an item of a ragged output. `numbers` are those of its innermost
// level, then of its values.
int64_t BytesOfItem(const uint8_t* base, const int64_t* numbers) {
  const int64_t items = Below(base + numbers[0], {0, numbers[1]}).end;
  return items > 0 ? numbers[3] / items : 0;
}

}  // namespace

Layout::Areas Layout::PlaceRows(const Source& from, int64_t row, int64_t rows) const {
  std::vector<int64_t> sizes;
  sizes.reserve(static_cast<size_t>(sizes_));
  int64_t elements = 0;  // packed: those of each output
  const int64_t* numbers =
      from.areas->numbers.data() + 2 * groups_.size() + row_bytes_.size();
  for (const int32_t levels : ragged_levels_) {
    ListRange range{row, row + rows};
    for (int32_t level = 0; level < levels; ++level, numbers += 2) {
      range = Below(from.base + numbers[0], range);
      sizes.push_back(range.end - range.first);
    }
    elements = sizes.back();
    sizes.back() *= BytesOfItem(from.base, numbers - 2);
    numbers += 2;
  }
  if (packed()) sizes.push_back(elements);
  return Place(rows, sizes);
}

void Layout::CopyRows(const Source& from, int64_t row, uint8_t* to,
                      const Areas& areas) const {
  const auto copy = [&](int64_t to_offset, int64_t from_offset, int64_t bytes) {
    std::memcpy(to + to_offset, from.base + from_offset, static_cast<size_t>(bytes));
  };
  const int64_t* in = from.areas->numbers.data();
  const int64_t* out = areas.numbers.data();
  for (const Group& group : groups_) {
    const int64_t item = ItemSize(group.dtype);
    for (int64_t c = 0; c < group.columns; ++c) {
      copy(out[0] + c * out[1], in[0] + c * in[1] + row * item, areas.rows * item);
    }
    in += 2;
    out += 2;
  }
  for (const int64_t row_bytes : row_bytes_) {
    copy(*out++, *in++ + row * row_bytes, areas.rows * row_bytes);
  }
  for (const int32_t levels : ragged_levels_) {
    ListRange range{row, row + areas.rows};
    for (int32_t level = 0; level < levels; ++level, in += 2, out += 2) {
      const auto* const starts = reinterpret_cast<const int64_t*>(from.base + in[0]);
      auto* const offsets = reinterpret_cast<int64_t*>(to + out[0]);
      for (int64_t i = range.first; i <= range.end; ++i) {
        offsets[i - range.first] = starts[i] - starts[range.first];
      }
      range = Below(from.base + in[0], range);
    }
    copy(out[0], in[0] + range.first * BytesOfItem(from.base, in - 2), out[1]);
    in += 2;
    out += 2;
  }
}

}  // namespace fastload
