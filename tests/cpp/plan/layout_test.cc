#include "fastload/plan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fastload/plan/output_check.h"
#include "fastload/plan/unit.h"

namespace fastload {
namespace {

constexpr int kStacked = 20;
// The columns of lists, behind the stacked columns.
enum Column { kEmbedding = 4 + kStacked, kPadded, kTokens, kWords, kColumns };
constexpr int64_t kEmbeddingSize = 3;
constexpr int64_t kLength = 5;

std::vector<ColumnSpec> Columns() {
  std::vector<ColumnSpec> columns(kColumns);
  columns[0].dtype = DType::kInt64;
  columns[1].dtype = DType::kInt16;
  columns[2].dtype = DType::kUInt8;
  columns[2].bytes = true;
  columns[3] = columns[2];
  for (int c = 0; c < kStacked; ++c) columns[4 + c].dtype = DType::kFloat32;
  columns[kEmbedding].dtype = DType::kFloat32;
  columns[kEmbedding].list_size = kEmbeddingSize;
  columns[kPadded].dtype = DType::kInt16;
  columns[kPadded].depth = 1;
  columns[kTokens].dtype = DType::kInt32;
  columns[kTokens].depth = 2;
  columns[kWords] = columns[2];
  columns[kWords].depth = 1;
  return columns;
}

std::vector<OutputSpec> Outputs() {
  std::vector<int32_t> stacked;
  for (int32_t c = 0; c < kStacked; ++c) stacked.push_back(4 + c);
  return {{OutputKind::kRagged, {2}},
          {OutputKind::kColumn, {0}},
          {OutputKind::kStack, stacked},
          {OutputKind::kColumn, {1}},
          {OutputKind::kValid, {0}},
          {OutputKind::kRow, {}},
          {OutputKind::kFile, {}},
          {OutputKind::kRagged, {kTokens}},
          {OutputKind::kRealRow, {}},
          {OutputKind::kPad, {kPadded}, kLength, std::string(2, '\0')},
          {OutputKind::kLength, {kPadded}, kLength},
          {OutputKind::kRagged, {kWords}},
          {OutputKind::kStack, {5, 4}},
          {OutputKind::kList, {kEmbedding}}};
}

// Outputs 1, 5 and 10 are int64, and outputs 4 and 8 bool: each dtype is a group.
enum Number {
  kInt64Group = 0,
  kInt16Group = 2,
  kBoolGroup = 4,
  kInt32Group = 6,
  kRowMajor = 8,
  kText = 12,
  kTokenLists = 16,
  kWordLists = 22,
  kNumbers = 28,
};

TEST(Layout, GroupsOutputsByDType) {
  const Layout layout(Columns(), Outputs());
  EXPECT_EQ(layout.slot(1).number, kInt64Group);
  EXPECT_EQ(layout.slot(1).column, 0);
  EXPECT_EQ(layout.slot(5).number, kInt64Group);
  EXPECT_EQ(layout.slot(5).column, 1);
  EXPECT_EQ(layout.slot(10).column, 2);
  EXPECT_EQ(layout.slot(10).stride, 8);
  EXPECT_EQ(layout.slot(3).number, kInt16Group);
  EXPECT_EQ(layout.slot(3).stride, 2);
  EXPECT_EQ(layout.slot(4).number, kBoolGroup);
  EXPECT_EQ(layout.slot(8).column, 1);
  EXPECT_EQ(layout.slot(6).number, kInt32Group);
}

TEST(Layout, RowMajorOutputsInTheirOrder) {
  const Layout layout(Columns(), Outputs());
  const std::vector<std::pair<int32_t, int64_t>> row_bytes = {
      {2, kStacked * 4}, {9, kLength * 2}, {12, 8}, {13, kEmbeddingSize * 4}};
  for (size_t i = 0; i < row_bytes.size(); ++i) {
    const Layout::Slot& slot = layout.slot(row_bytes[i].first);
    EXPECT_EQ(slot.number, kRowMajor + static_cast<int32_t>(i));
    EXPECT_EQ(slot.stride, row_bytes[i].second);
    EXPECT_TRUE(slot.row_major);
  }
}

TEST(Layout, RaggedOutputsHaveLevels) {
  const Layout layout(Columns(), Outputs());
  const std::vector<std::pair<int32_t, Layout::Slot>> expected = {
      {0, {.number = kText, .levels = 1, .first_size = 0}},
      {7, {.number = kTokenLists, .levels = 2, .first_size = 1}},
      {11, {.number = kWordLists, .levels = 2, .first_size = 3}}};
  for (const auto& [output, slot] : expected) {
    EXPECT_EQ(layout.slot(output).number, slot.number);
    EXPECT_EQ(layout.slot(output).levels, slot.levels);
    EXPECT_EQ(layout.slot(output).first_size, slot.first_size);
  }
  EXPECT_EQ(layout.sizes(), 5);
}

struct Area {
  int64_t begin;
  int64_t end;
};

// The number of areas whose size follows from the rows.
constexpr size_t kFixedAreas = 11;

// Returns all areas of memory that the outputs of a batch take.
std::vector<Area> AreasOf(const Layout::Areas& areas) {
  const AreaNumbers& n = areas.numbers;
  const int64_t rows = areas.rows;
  std::vector<Area> all;
  const auto group = [&](size_t at, int64_t columns, int64_t item) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t begin = n[at] + c * n[at + 1];
      all.push_back({begin, begin + rows * item});
    }
  };
  group(kInt64Group, 3, 8);
  group(kInt16Group, 1, 2);
  group(kBoolGroup, 2, 1);
  group(kInt32Group, 1, 4);
  all.push_back({n[8], n[8] + rows * kStacked * 4});
  all.push_back({n[9], n[9] + rows * kLength * 2});
  all.push_back({n[10], n[10] + rows * 8});
  all.push_back({n[11], n[11] + rows * kEmbeddingSize * 4});
  const auto ragged = [&](size_t at, int levels) {
    EXPECT_EQ(n[at + 1], rows);
    for (int level = 0; level < levels; ++level, at += 2) {
      all.push_back({n[at], n[at] + (n[at + 1] + 1) * 8});
    }
    all.push_back({n[at], n[at] + n[at + 1]});
  };
  ragged(kText, 1);
  ragged(kTokenLists, 2);
  ragged(kWordLists, 2);
  return all;
}

TEST(Layout, AreasAreAlignedAndApart) {
  const Layout layout(Columns(), Outputs());
  for (const int64_t rows : {0, 1, 7, 8, 64, 1000, 4097}) {
    const std::vector<int64_t> sizes = {rows * 3, rows * 2, rows * 28, 5, 17};
    const Layout::Areas areas = layout.Place(rows, sizes);
    EXPECT_EQ(areas.rows, rows);
    ASSERT_EQ(areas.numbers.size(), kNumbers);
    EXPECT_EQ(areas.numbers[kText + 3], rows * 3);
    EXPECT_EQ(areas.numbers[kTokenLists + 3], rows * 2);
    EXPECT_EQ(areas.numbers[kTokenLists + 5], rows * 28);
    EXPECT_EQ(areas.numbers[kWordLists + 3], 5);
    EXPECT_EQ(areas.numbers[kWordLists + 5], 17);
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

// Else a batch of more bytes than int64 counts would be one of few bytes.
TEST(Layout, SumsOfBytesDoNotOverflow) {
  std::vector<ColumnSpec> columns(1);
  columns[0].dtype = DType::kInt64;
  columns[0].list_size = INT32_MAX;
  for (const size_t outputs : {64, 1000}) {
    const Layout layout(columns,
                        std::vector<OutputSpec>(outputs, {OutputKind::kList, {0}}));
    for (const int64_t rows : {int64_t{1} << 24, int64_t{1} << 29, int64_t{1} << 30}) {
      const int64_t bytes = layout.Place(rows, {}).bytes;
      EXPECT_GE(bytes, int64_t{1} << 57);
      BlockPool pool(MakePrivateMemory(), 0);
      EXPECT_TRUE(pool.Allocate(bytes).status().IsOutOfMemory());
    }
  }
}

TEST(Layout, AddressesOfColumnsAndStacks) {
  const Layout layout(Columns(), Outputs());
  const Layout::Areas areas = layout.Place(10, std::vector<int64_t>(5));
  std::vector<uint8_t> block(static_cast<size_t>(areas.bytes));
  EXPECT_EQ(Layout::Address(block.data(), areas, layout.slot(5)),
            block.data() + areas.numbers[0] + areas.numbers[1]);
  Layout::Slot slot = layout.slot(2);
  slot.row_offset = 64;
  EXPECT_EQ(Layout::Address(block.data(), areas, slot),
            block.data() + areas.numbers[kRowMajor] + 64);
}

TEST(Layout, PartsOfPackedRowsLieInTheBatch) {
  const Layout layout(Columns(), {{OutputKind::kRow, {}},
                                  {OutputKind::kRagged, {kPadded}, kLength},
                                  {OutputKind::kDocument, {}}});
  const int64_t elements = 4 * kLength;
  const Layout::Areas areas =
      layout.Place(9, std::vector<int64_t>{2 * elements, elements});
  const Layout::Areas from = layout.From(areas, 6, 2 * kLength);
  const std::vector<int64_t> before = {6 * 8, 0, 6 * 8, 0, 2 * 2 * kLength, 0, 0, 0};
  ASSERT_EQ(areas.numbers.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(from.numbers[i], areas.numbers[i] + before[i]) << i;
  }
}

// A batch in which every value states its output, column and row.
struct Filled {
  Layout::Areas areas;
  std::vector<uint64_t> memory;  // elements are uint64_t for alignment
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory.data()); }
};

uint8_t ByteAt(size_t area, int64_t row, int64_t byte) {
  return static_cast<uint8_t>(31 * area + 7 * row + byte);
}

std::string TextAt(int64_t row) {
  return std::string(static_cast<size_t>(row * 5 % 9), static_cast<char>('a' + row % 26));
}

// Returns the lists of a row of two levels, as strings whose characters are `width`
// bytes.
std::vector<std::string> ListsAt(int64_t row, int64_t width) {
  std::vector<std::string> lists(static_cast<size_t>((row * 7 + width) % 4));
  for (size_t i = 0; i < lists.size(); ++i) {
    lists[i] = TextAt(row + static_cast<int64_t>(i));
    lists[i].resize(lists[i].size() / static_cast<size_t>(width) *
                    static_cast<size_t>(width));
  }
  return lists;
}

Filled Fill(const Layout& layout, int64_t first_row, int64_t rows) {
  // Offsets by level, and values, of each ragged output.
  struct Ragged {
    std::vector<std::vector<int64_t>> offsets;
    std::string values;
  };
  std::vector<Ragged> ragged = {{{{0}}, ""}, {{{0}, {0}}, ""}, {{{0}, {0}}, ""}};
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    ragged[0].values += TextAt(row);
    ragged[0].offsets[0].push_back(static_cast<int64_t>(ragged[0].values.size()));
    for (size_t r = 1; r < 3; ++r) {
      const int64_t width = r == 1 ? 4 : 1;
      for (const std::string& list : ListsAt(row, width)) {
        ragged[r].values += list;
        ragged[r].offsets[1].push_back(static_cast<int64_t>(ragged[r].values.size()) /
                                       width);
      }
      ragged[r].offsets[0].push_back(static_cast<int64_t>(ragged[r].offsets[1].size()) -
                                     1);
    }
  }
  std::vector<int64_t> sizes;
  for (const Ragged& r : ragged) {
    if (r.offsets.size() > 1) sizes.push_back(r.offsets[0].back());
    sizes.push_back(static_cast<int64_t>(r.values.size()));
  }
  Filled filled{.areas = layout.Place(rows, sizes)};
  filled.memory.assign(static_cast<size_t>(filled.areas.bytes / 8), 0);
  const std::vector<Area> all = AreasOf(filled.areas);
  for (size_t a = 0; a < kFixedAreas; ++a) {
    const int64_t item = rows == 0 ? 0 : (all[a].end - all[a].begin) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t b = 0; b < item; ++b) {
        filled.data()[all[a].begin + r * item + b] = ByteAt(a, first_row + r, b);
      }
    }
  }
  auto area = all.begin() + kFixedAreas;
  for (const Ragged& r : ragged) {
    for (const std::vector<int64_t>& offsets : r.offsets) {
      std::memcpy(filled.data() + area++->begin, offsets.data(), offsets.size() * 8);
    }
    std::memcpy(filled.data() + area++->begin, r.values.data(), r.values.size());
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
  // Three staged units, one padded unit, three of fixed width, three of provenance, and
  // the stacks.
  ASSERT_EQ(units.size(), 12);
  EXPECT_EQ(units[0].kind, Unit::Kind::kBytes);
  EXPECT_EQ(units[1].kind, Unit::Kind::kNested);
  EXPECT_EQ(units[1].width, 4);
  EXPECT_EQ(units[1].slots.size(), 1);
  EXPECT_EQ(units[2].kind, Unit::Kind::kNested);
  EXPECT_EQ(units[2].slots[0].first_size, 3);
  EXPECT_EQ(units[3].columns, std::vector<int32_t>{0});
  EXPECT_EQ(units[3].slots.size(), 1);
  EXPECT_EQ(units[3].valid_slots.size(), 1);
  const auto padded = std::ranges::find(units, Unit::Kind::kPadded, &Unit::kind);
  ASSERT_NE(padded, units.end());
  EXPECT_EQ(padded->width, 2);
  EXPECT_TRUE(padded->slots.empty());
  ASSERT_EQ(padded->pads.size(), 1);
  EXPECT_EQ(padded->pads[0].slot.stride, kLength * padded->width);
  EXPECT_EQ(padded->pads[0].element.size(), 2);
  ASSERT_EQ(padded->lengths.size(), 1);
  EXPECT_EQ(padded->lengths[0].most, kLength);
  EXPECT_EQ(units[9].columns, std::vector<int32_t>{kEmbedding});
  EXPECT_EQ(units[9].width, kEmbeddingSize * 4);
  EXPECT_EQ(units[10].columns.size(), 20);
  EXPECT_EQ(units[10].width, 80);
  EXPECT_EQ(units[11].columns, (std::vector<int32_t>{5, 4}));
}

TEST(Units, CutWideStacks) {
  std::vector<ColumnSpec> columns(100, Columns()[4]);
  const auto item = static_cast<size_t>(ItemSize(columns[0].dtype));
  std::vector<int32_t> all(columns.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<OutputSpec> outputs = {{OutputKind::kStack, all}};
  const std::vector<Unit> units = MakeUnits(columns, outputs, Layout(columns, outputs));
  const size_t most = Unit::kMostStackBytes / item;
  ASSERT_EQ(units.size(), (columns.size() + most - 1) / most);
  EXPECT_GT(units.size(), 1);
  EXPECT_EQ(units[0].columns.size(), most);
  EXPECT_EQ(units[0].width, Unit::kMostStackBytes);
  EXPECT_EQ(units[1].columns[0], static_cast<int32_t>(most));
  EXPECT_EQ(units[1].slots[0].row_offset, Unit::kMostStackBytes);
}

TEST(Outputs, AreCheckedAgainstTheirColumns) {
  EXPECT_TRUE(CheckOutputs(Columns(), Outputs()).ok());
  const std::string pad(2, '\0');
  for (const OutputSpec& output :
       {OutputSpec{OutputKind::kColumn, {2}}, OutputSpec{OutputKind::kColumn, {kTokens}},
        OutputSpec{OutputKind::kColumn, {kColumns}},
        OutputSpec{OutputKind::kColumn, {-1}}, OutputSpec{OutputKind::kColumn, {}},
        OutputSpec{OutputKind::kColumn, {0, 0}}, OutputSpec{OutputKind::kStack, {}},
        OutputSpec{OutputKind::kStack, {0, 1}},
        OutputSpec{OutputKind::kStack, {4, kEmbedding}},
        OutputSpec{OutputKind::kRagged, {0}},
        OutputSpec{OutputKind::kRagged, {kEmbedding}}, OutputSpec{OutputKind::kList, {0}},
        OutputSpec{OutputKind::kList, {kPadded}},
        OutputSpec{OutputKind::kPad, {kTokens}, 3, pad},
        OutputSpec{OutputKind::kPad, {kWords}, 3, pad},
        OutputSpec{OutputKind::kPad, {kPadded}, -1, pad},
        OutputSpec{OutputKind::kPad, {kPadded}, 3, ""},
        OutputSpec{OutputKind::kLength, {kTokens}, 3},
        OutputSpec{OutputKind::kFile, {0}}}) {
    EXPECT_TRUE(CheckOutputs(Columns(), {output}).IsInvalid())
        << static_cast<int>(output.kind);
  }
  std::vector<ColumnSpec> columns = Columns();
  columns[0].list_size = -1;
  EXPECT_TRUE(CheckOutputs(columns, {}).IsInvalid());
}

}  // namespace
}  // namespace fastload
