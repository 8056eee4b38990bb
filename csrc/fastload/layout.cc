#include "fastload/layout.h"

#include <algorithm>
#include <cstring>

namespace fastload {

DType Layout::OutputType(const OutputSpec& output,
                         const std::vector<ColumnSpec>& columns) {
  switch (output.kind) {
    case OutputKind::kColumn:
    case OutputKind::kStack:
      return columns[static_cast<size_t>(output.columns.at(0))].dtype;
    case OutputKind::kBytes:
      return DType::kUInt8;
    case OutputKind::kValid:
    case OutputKind::kRealRow:
      return DType::kBool;
    case OutputKind::kFile:
      return DType::kInt32;
    case OutputKind::kRow:
      return DType::kInt64;
  }
  return DType::kUInt8;
}

Layout::Layout(const std::vector<ColumnSpec>& columns,
               const std::vector<OutputSpec>& outputs) {
  std::vector<int32_t> group_of(outputs.size(), -1);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputKind kind = outputs[i].kind;
    if (kind == OutputKind::kStack || kind == OutputKind::kBytes) continue;
    const DType dtype = OutputType(outputs[i], columns);
    auto found = std::find_if(groups_.begin(), groups_.end(),
                              [&](const Group& g) { return g.dtype == dtype; });
    if (found == groups_.end()) found = groups_.insert(groups_.end(), Group{dtype, 0});
    group_of[i] = static_cast<int32_t>(found - groups_.begin());
  }
  slots_.resize(outputs.size());
  auto number = static_cast<int32_t>(2 * groups_.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int item = ItemSize(OutputType(outputs[i], columns));
    if (group_of[i] >= 0) {
      Group& group = groups_[static_cast<size_t>(group_of[i])];
      slots_[i] =
          Slot{.number = 2 * group_of[i], .column = group.columns++, .stride = item};
    } else if (outputs[i].kind == OutputKind::kStack) {
      const auto row_bytes = static_cast<int32_t>(outputs[i].columns.size()) * item;
      slots_[i] = Slot{.number = number++, .stride = row_bytes, .stacked = true};
      stack_row_bytes_.push_back(row_bytes);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].kind != OutputKind::kBytes) continue;
    slots_[i] = Slot{.number = number};
    number += 3;
    ++byte_outputs_;
  }
}

Layout::Areas Layout::Place(int64_t rows, std::span<const int64_t> value_bytes) const {
  Areas areas;
  areas.rows = rows;
  areas.numbers.reserve(2 * groups_.size() + stack_row_bytes_.size() +
                        3 * value_bytes.size());
  int64_t end = 0;
  const auto take = [&end](int64_t bytes) {
    const int64_t start = end;
    end += RoundUp(bytes, kAlignment);
    return start;
  };
  for (const Group& group : groups_) {
    const int64_t pitch = RoundUp(rows * ItemSize(group.dtype), kAlignment);
    areas.numbers.push_back(take(pitch * group.columns));
    areas.numbers.push_back(pitch);
  }
  for (int64_t row_bytes : stack_row_bytes_) {
    areas.numbers.push_back(take(rows * row_bytes));
  }
  for (int64_t bytes : value_bytes) {
    areas.numbers.push_back(take((rows + 1) * static_cast<int64_t>(sizeof(int64_t))));
    areas.numbers.push_back(take(bytes));
    areas.numbers.push_back(bytes);
  }
  areas.bytes = std::max(end, kAlignment);
  return areas;
}

Layout::Areas Layout::PlaceMerged(std::span<const Source> sources) const {
  int64_t rows = 0;
  std::vector<int64_t> value_bytes(static_cast<size_t>(byte_outputs_));
  const size_t first = 2 * groups_.size() + stack_row_bytes_.size();
  for (const Source& source : sources) {
    rows += source.areas->rows;
    for (size_t b = 0; b < value_bytes.size(); ++b) {
      value_bytes[b] += source.areas->numbers[first + 3 * b + 2];
    }
  }
  return Place(rows, value_bytes);
}

void Layout::Merge(std::span<const Source> sources, uint8_t* to,
                   const Areas& areas) const {
  std::vector<int64_t> value_end(static_cast<size_t>(byte_outputs_));
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
    for (int64_t row_bytes : stack_row_bytes_) {
      copy(*out++ + row * row_bytes, *from++, rows * row_bytes);
    }
    for (int64_t& end : value_end) {
      auto* offsets = reinterpret_cast<int64_t*>(to + out[0]) + row;
      const auto* from_offsets = reinterpret_cast<const int64_t*>(source.base + from[0]);
      for (int64_t i = 0; i <= rows; ++i) offsets[i] = end + from_offsets[i];
      copy(out[1] + end, from[1], from[2]);
      end += from[2];
      from += 3;
      out += 3;
    }
    row += rows;
  }
}

}  // namespace fastload
