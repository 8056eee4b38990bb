#include "fastload/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/unit.h"

namespace fastload {
namespace {

constexpr int kStacked = 20;

std::vector<ColumnSpec> Columns() {
  std::vector<ColumnSpec> columns(4 + kStacked);
  columns[0].dtype = DType::kInt64;
  columns[1].dtype = DType::kInt16;
  columns[2].dtype = DType::kUInt8;
  columns[2].bytes = true;
  columns[3] = columns[2];
  for (int c = 0; c < kStacked; ++c) columns[4 + c].dtype = DType::kFloat32;
  return columns;
}

std::vector<OutputSpec> Outputs() {
  std::vector<int32_t> stacked;
  for (int32_t c = 0; c < kStacked; ++c) stacked.push_back(4 + c);
  return {{OutputKind::kBytes, {2}},     {OutputKind::kColumn, {0}},
          {OutputKind::kStack, stacked}, {OutputKind::kColumn, {1}},
          {OutputKind::kValid, {0}},     {OutputKind::kRow, {}},
          {OutputKind::kFile, {}},       {OutputKind::kBytes, {3}},
          {OutputKind::kRealRow, {}},    {OutputKind::kStack, {5, 4}}};
}

// Outputs 1 and 5 are int64, 4 and 8 bool: each a group.
enum Number { kInt64Group = 0, kInt16Group = 2, kBoolGroup = 4, kInt32Group = 6 };

TEST(Layout, GroupsOutputsByDType) {
  const Layout layout(Columns(), Outputs());
  EXPECT_EQ(layout.slot(1).number, kInt64Group);
  EXPECT_EQ(layout.slot(1).column, 0);
  EXPECT_EQ(layout.slot(5).number, kInt64Group);
  EXPECT_EQ(layout.slot(5).column, 1);
  EXPECT_EQ(layout.slot(3).number, kInt16Group);
  EXPECT_EQ(layout.slot(3).stride, 2);
  EXPECT_EQ(layout.slot(4).number, kBoolGroup);
  EXPECT_EQ(layout.slot(8).column, 1);
  EXPECT_EQ(layout.slot(6).number, kInt32Group);
  EXPECT_EQ(layout.slot(2).number, 8);
  EXPECT_EQ(layout.slot(2).stride, kStacked * 4);
  EXPECT_EQ(layout.slot(9).number, 9);
  EXPECT_EQ(layout.slot(9).stride, 8);
  EXPECT_EQ(layout.slot(0).number, 10);
  EXPECT_EQ(layout.slot(7).number, 13);
  EXPECT_EQ(layout.byte_outputs(), 2);
}

struct Area {
  int64_t begin;
  int64_t end;
};

// All memory that the outputs of a batch take.
std::vector<Area> AreasOf(const Layout::Areas& areas) {
  const std::vector<int64_t>& n = areas.numbers;
  const int64_t rows = areas.rows;
  std::vector<Area> all;
  const auto group = [&](size_t at, int64_t columns, int64_t item) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t begin = n[at] + c * n[at + 1];
      all.push_back({begin, begin + rows * item});
    }
  };
  group(kInt64Group, 2, 8);
  group(kInt16Group, 1, 2);
  group(kBoolGroup, 2, 1);
  group(kInt32Group, 1, 4);
  all.push_back({n[8], n[8] + rows * kStacked * 4});
  all.push_back({n[9], n[9] + rows * 8});
  for (size_t at : {10, 13}) {
    all.push_back({n[at], n[at] + (rows + 1) * 8});
    all.push_back({n[at + 1], n[at + 1] + n[at + 2]});
  }
  return all;
}

TEST(Layout, AreasAreAlignedAndApart) {
  const Layout layout(Columns(), Outputs());
  for (const int64_t rows : {0, 1, 7, 8, 64, 1000, 4097}) {
    const std::vector<int64_t> value_bytes = {rows * 3, 5};
    const Layout::Areas areas = layout.Place(rows, value_bytes);
    EXPECT_EQ(areas.rows, rows);
    ASSERT_EQ(areas.numbers.size(), 16);
    EXPECT_EQ(areas.numbers[12], rows * 3);
    EXPECT_EQ(areas.numbers[15], 5);
    std::vector<Area> all = AreasOf(areas);
    std::sort(all.begin(), all.end(), [](const Area& a, const Area& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    int64_t end = 0;
    for (const Area& area : all) {
      EXPECT_EQ(area.begin % kAlignment, 0);
      EXPECT_GE(area.begin, end);
      end = area.end;
    }
    EXPECT_LE(end, areas.bytes);
    EXPECT_LE(areas.bytes, end + kAlignment);
  }
}

TEST(Layout, AddressesOfColumnsAndStacks) {
  const Layout layout(Columns(), Outputs());
  const Layout::Areas areas = layout.Place(10, std::vector<int64_t>{0, 0});
  std::vector<uint8_t> block(static_cast<size_t>(areas.bytes));
  EXPECT_EQ(Layout::Address(block.data(), areas, layout.slot(5)),
            block.data() + areas.numbers[0] + areas.numbers[1]);
  Layout::Slot slot = layout.slot(2);
  slot.row_offset = 64;
  EXPECT_EQ(Layout::Address(block.data(), areas, slot),
            block.data() + areas.numbers[8] + 64);
}

// A batch whose every value tells output, column and row.
struct Filled {
  Layout::Areas areas;
  std::vector<uint64_t> memory;  // of uint64_t for alignment
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory.data()); }
};

uint8_t ByteAt(size_t area, int64_t row, int64_t byte) {
  return static_cast<uint8_t>(31 * area + 7 * row + byte);
}

std::string TextAt(size_t output, int64_t row) {
  return std::string(static_cast<size_t>((row * 5 + static_cast<int64_t>(output)) % 9),
                     static_cast<char>('a' + row % 26));
}

Filled Fill(const Layout& layout, int64_t first_row, int64_t rows) {
  std::vector<int64_t> value_bytes(2);
  for (size_t b = 0; b < 2; ++b) {
    for (int64_t r = 0; r < rows; ++r) value_bytes[b] += TextAt(b, first_row + r).size();
  }
  Filled filled{.areas = layout.Place(rows, value_bytes)};
  filled.memory.assign(static_cast<size_t>(filled.areas.bytes / 8), 0);
  const std::vector<Area> all = AreasOf(filled.areas);
  for (size_t a = 0; a < 8; ++a) {
    const int64_t item = rows == 0 ? 0 : (all[a].end - all[a].begin) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t b = 0; b < item; ++b) {
        filled.data()[all[a].begin + r * item + b] = ByteAt(a, first_row + r, b);
      }
    }
  }
  for (size_t b = 0; b < 2; ++b) {
    auto* offsets = reinterpret_cast<int64_t*>(filled.data() + all[8 + 2 * b].begin);
    int64_t end = 0;
    offsets[0] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const std::string text = TextAt(b, first_row + r);
      std::memcpy(filled.data() + all[9 + 2 * b].begin + end, text.data(), text.size());
      end += static_cast<int64_t>(text.size());
      offsets[r + 1] = end;
    }
  }
  return filled;
}

TEST(Layout, MergedBatchesEqualOneMadeAtOnce) {
  const Layout layout(Columns(), Outputs());
  for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{
           {0, 10}, {0, 1, 10}, {0, 3, 3, 8, 100}, {0, 0, 5}}) {
    std::vector<Filled> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      parts.push_back(Fill(layout, cuts[i], cuts[i + 1] - cuts[i]));
    }
    std::vector<Layout::Source> sources;
    for (Filled& part : parts) sources.push_back({part.data(), &part.areas});
    Filled expected = Fill(layout, 0, cuts.back());
    Filled merged{.areas = layout.PlaceMerged(sources)};
    EXPECT_EQ(merged.areas.rows, cuts.back());
    EXPECT_EQ(merged.areas.bytes, expected.areas.bytes);
    EXPECT_EQ(merged.areas.numbers, expected.areas.numbers);
    merged.memory.assign(expected.memory.size(), 0);
    layout.Merge(sources, merged.data(), merged.areas);
    EXPECT_EQ(merged.memory, expected.memory);
  }
}

TEST(Units, CoverEveryOutput) {
  const std::vector<ColumnSpec> columns = Columns();
  const Layout layout(columns, Outputs());
  const std::vector<Unit> units = MakeUnits(columns, Outputs(), layout);
  // Two of bytes, two of fixed width, three of provenance, and the stacks: 20 floats are
  // a cache line and four more.
  ASSERT_EQ(units.size(), 10);
  EXPECT_EQ(units[0].kind, Unit::Kind::kBytes);
  EXPECT_EQ(units[1].kind, Unit::Kind::kBytes);
  EXPECT_EQ(units[1].byte_outputs, std::vector<int32_t>{1});
  EXPECT_EQ(units[2].columns, std::vector<int32_t>{0});
  EXPECT_EQ(units[2].slots.size(), 1);
  EXPECT_EQ(units[2].valid_slots.size(), 1);
  EXPECT_EQ(units[7].columns.size(), 16);
  EXPECT_EQ(units[7].width, 64);
  EXPECT_EQ(units[8].columns.size(), 4);
  EXPECT_EQ(units[8].slots[0].row_offset, 64);
  EXPECT_EQ(units[9].columns, (std::vector<int32_t>{5, 4}));
}

}  // namespace
}  // namespace fastload
