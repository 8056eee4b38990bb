#include "fastload/decode/repeated_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "column_file.h"
#include "fastload/base/status.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/selected_reader.h"
#include "nested_cases.h"
#include "nested_file.h"

namespace fastload {
namespace {

using testing::ColumnData;
using testing::ColumnLayout;
using testing::LeafNode;
using testing::NestedCase;
using testing::NestedCases;
using testing::OpenedColumn;
using testing::OpenedLeaf;
using testing::RandomArray;
using testing::SpecOf;
using testing::WriteArray;
using testing::WriteColumn;

constexpr int64_t kStoredRows = 6000;

// Returns copies of one of several kinds: about one of each row, few rows, runs, and rows
// with many copies.
std::vector<uint16_t> RandomCounts(int64_t rows, uint64_t kind, std::mt19937_64* random) {
  std::vector<uint16_t> counts;
  bool run = true;
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t draw = (*random)();
    if (draw % 97 == 0) run = !run;
    switch (kind) {
      case 0:
        counts.push_back(static_cast<uint16_t>(draw % 4));
        break;
      case 1:
        counts.push_back(draw % 300 == 0 ? 2 : 0);
        break;
      case 2:
        counts.push_back(run ? 1 : static_cast<uint16_t>(draw / 97 % 2 * 2));
        break;
      default:
        counts.push_back(draw % 500 == 0 ? 9000 : static_cast<uint16_t>(draw % 7 % 3));
    }
  }
  return counts;
}

// Returns the row of each copy: the plain definition of what the readers return.
std::vector<uint32_t> RowOfCopy(const std::vector<uint16_t>& counts) {
  std::vector<uint32_t> rows;
  for (size_t row = 0; row < counts.size(); ++row) {
    rows.insert(rows.end(), counts[row], static_cast<uint32_t>(row));
  }
  return rows;
}

// Cuts copies into random pieces: calls skip(n) or read(first, n).
template <typename Skip, typename Read>
Status CutToPieces(int64_t copies, std::mt19937_64* random, const Skip& skip,
                   const Read& read) {
  for (int64_t at = 0; at < copies;) {
    const uint64_t most = (*random)() % 2 == 0 ? 5 : 7000;
    const auto n =
        std::min<int64_t>(copies - at, 1 + static_cast<int64_t>((*random)() % most));
    ARROW_RETURN_NOT_OK((*random)() % 4 == 0 ? skip(n) : read(at, n));
    at += n;
  }
  return Status::OK();
}

// The file of a test, the rows that are selected in it, and their copies.
struct RepeatedCase {
  std::vector<uint64_t> bits;    // empty: all rows
  std::vector<int64_t> stored;   // of each selected row
  std::vector<uint16_t> counts;  // of each selected row
  std::vector<uint32_t> copies;  // the selected row of each copy

  RowBits Bits() const {
    return {bits.empty() ? nullptr : reinterpret_cast<const uint8_t*>(bits.data()),
            kStoredRows};
  }
  // Returns the rows for a reader, which may be used until the next call.
  RepeatedRows Rows(bool nullable) const {
    group = std::make_shared<GroupCopies>(counts);
    return {.copies = group->rows(), .bits = Bits(), .nullable = nullable};
  }

  mutable std::shared_ptr<GroupCopies> group;
};

RepeatedCase RandomCase(uint64_t kind, bool selected, std::mt19937_64* random) {
  RepeatedCase made;
  if (selected) made.bits.resize((kStoredRows + 63) / 64);
  for (int64_t row = 0; row < kStoredRows; ++row) {
    const bool stays = !selected || (*random)() % 3 != 0;
    if (stays) made.stored.push_back(row);
    if (selected && stays) made.bits[static_cast<size_t>(row / 64)] |= 1ULL << row % 64;
  }
  made.counts = RandomCounts(static_cast<int64_t>(made.stored.size()), kind, random);
  made.copies = RowOfCopy(made.counts);
  return made;
}

template <typename Reader, typename Whole, typename Selected>
MakeBase<Reader> Base(OpenedColumn* file, const RepeatedCase& made, const Whole& whole,
                      const Selected& selected) {
  return [&made, file, whole, selected](const ColumnSpec* spec) {
    return made.bits.empty() ? whole(file->Chunk(), spec)
                             : selected(file->Chunk(), spec, made.Bits(), ChunkPages{});
  };
}

ColumnSpec SpecWithFill(DType dtype, std::optional<std::string> fill) {
  ColumnSpec spec;
  spec.name = "column";
  spec.dtype = dtype;
  spec.fill = std::move(fill);
  return spec;
}

ColumnData<parquet::Int32Type> RandomNumbers(bool nulls, uint64_t kinds,
                                             std::mt19937_64* random) {
  ColumnData<parquet::Int32Type> data;
  for (int64_t i = 0; i < kStoredRows; ++i) {
    data.valid.push_back(!nulls || (*random)() % 5 != 0);
    if (data.valid.back() != 0) {
      data.values.push_back(static_cast<int32_t>((*random)() % kinds * 7919));
    }
  }
  return data;
}

std::vector<int32_t> ValuesOf(const ColumnData<parquet::Int32Type>& data, int32_t fill) {
  std::vector<int32_t> values;
  size_t next = 0;
  for (const uint8_t present : data.valid) {
    values.push_back(present != 0 ? data.values[next++] : fill);
  }
  return values;
}

// Reads copies as codes where there are codes, else as values.
Status ReadMixed(FixedReader* reader, int64_t n, int32_t fill, uint32_t base,
                 std::vector<int32_t>* values, std::vector<uint8_t>* valid) {
  ARROW_ASSIGN_OR_RAISE(const auto dictionary, reader->Dictionary());
  std::vector<uint32_t> codes(static_cast<size_t>(n));
  int64_t read = 0;
  if (!dictionary.empty()) {
    ARROW_ASSIGN_OR_RAISE(
        read, reader->ReadCodes(n, {.bytes = 4, .base = base, .null_code = 0},
                                reinterpret_cast<uint8_t*>(codes.data()), valid->data()));
  }
  for (int64_t i = 0; i < read; ++i) {
    const uint32_t code = codes[static_cast<size_t>(i)];
    int32_t value = fill;
    if (code != 0) std::memcpy(&value, dictionary.data() + 4 * int64_t{code - base}, 4);
    (*values)[static_cast<size_t>(i)] = value;
  }
  return reader->Read(n - read, reinterpret_cast<uint8_t*>(values->data() + read), 4,
                      valid->data() + read);
}

TEST(RepeatedFixedReader, ReturnsEachRowAsOftenAsItHasCopies) {
  std::mt19937_64 random(1);
  constexpr int32_t kFill = -5;
  for (int round = 0; round < 160; ++round) {
    const bool nulls = random() % 2 == 0;
    const RepeatedCase made = RandomCase(random() % 4, random() % 2 == 0, &random);
    const auto data = RandomNumbers(nulls, random() % 2 == 0 ? 20 : 100'000, &random);
    ColumnLayout layout;
    layout.dictionary = random() % 3 != 0;
    layout.dictionary_bytes = random() % 2 == 0 ? 2000 : 1 << 20;
    layout.page_bytes = random() % 2 == 0 ? 700 : 9000;
    SCOPED_TRACE(testing::Describe(layout) + " round " + std::to_string(round));
    OpenedColumn file(
        WriteColumn<parquet::Int32Type>(LeafNode(parquet::Type::INT32), data, layout));
    const std::string fill(reinterpret_cast<const char*>(&kFill), 4);
    const ColumnSpec spec = SpecWithFill(DType::kInt32, fill);
    RepeatedRows rows = made.Rows(true);
    rows.decodes_gaps = random() % 2 == 0;
    auto reader = MakeRepeatedFixedReader(rows, &spec,
                                          Base<FixedReader>(&file, made, MakeFixedReader,
                                                            MakeSelectedFixedReader))
                      .ValueOrDie();
    const std::vector<int32_t> stored = ValuesOf(data, kFill);
    const bool coded = random() % 2 == 0;
    const Status status = CutToPieces(
        static_cast<int64_t>(made.copies.size()), &random,
        [&](int64_t n) { return reader->Skip(n); },
        [&](int64_t first, int64_t n) -> Status {
          const int64_t step = coded || random() % 2 == 0 ? 1 : 3;
          std::vector<int32_t> out(static_cast<size_t>(n * step));
          std::vector<uint8_t> valid(static_cast<size_t>(n), 7);
          if (coded && random() % 5 != 0) {
            const auto base = static_cast<uint32_t>(1 + random() % 9);
            ARROW_RETURN_NOT_OK(ReadMixed(reader.get(), n, kFill, base, &out, &valid));
          } else {
            ARROW_RETURN_NOT_OK(reader->Read(n, reinterpret_cast<uint8_t*>(out.data()),
                                             4 * step, valid.data()));
          }
          for (int64_t i = 0; i < n; ++i) {
            const int64_t selected = made.copies[static_cast<size_t>(first + i)];
            const auto row =
                static_cast<size_t>(made.stored[static_cast<size_t>(selected)]);
            if (out[static_cast<size_t>(i * step)] != stored[row] ||
                valid[static_cast<size_t>(i)] != data.valid[row]) {
              return Status::Invalid("copy ", first + i, " differs");
            }
          }
          return Status::OK();
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(RepeatedFixedReader, RefusesNullsOfRowsWithCopiesAlone) {
  std::mt19937_64 random(2);
  for (const bool selected : {false, true}) {
    RepeatedCase made = RandomCase(0, selected, &random);
    const auto data = RandomNumbers(true, 20, &random);
    for (size_t i = 0; i < made.stored.size(); ++i) {
      if (data.valid[static_cast<size_t>(made.stored[i])] == 0) made.counts[i] = 0;
    }
    made.copies = RowOfCopy(made.counts);
    const ColumnSpec spec = SpecWithFill(DType::kInt32, std::nullopt);
    const auto read = [&](const RepeatedCase& of) -> Status {
      OpenedColumn file(
          WriteColumn<parquet::Int32Type>(LeafNode(parquet::Type::INT32), data, {}));
      ARROW_ASSIGN_OR_RAISE(auto reader, MakeRepeatedFixedReader(
                                             of.Rows(true), &spec,
                                             Base<FixedReader>(&file, of, MakeFixedReader,
                                                               MakeSelectedFixedReader)));
      const auto copies = std::accumulate(of.counts.begin(), of.counts.end(), int64_t{0});
      std::vector<int32_t> out(static_cast<size_t>(copies));
      return reader->Read(copies, reinterpret_cast<uint8_t*>(out.data()), 4, nullptr);
    };
    EXPECT_TRUE(read(made).ok()) << read(made).ToString();
    size_t null = 3000;
    while (data.valid[static_cast<size_t>(made.stored[null])] != 0) ++null;
    made.counts[null] = 2;
    made.copies = RowOfCopy(made.counts);
    const Status refused = read(made);
    EXPECT_EQ(KindOf(refused), ErrorKind::kNullValue) << refused.ToString();
    EXPECT_EQ(RowOf(refused), std::optional(made.stored[null]));
  }
}

TEST(RepeatedFixedReader, RefusesToReadMoreCopiesThanThereAre) {
  std::mt19937_64 random(3);
  RepeatedCase made = RandomCase(0, false, &random);
  const auto data = RandomNumbers(false, 20, &random);
  OpenedColumn file(
      WriteColumn<parquet::Int32Type>(LeafNode(parquet::Type::INT32), data, {}));
  const ColumnSpec spec = SpecWithFill(DType::kInt32, std::nullopt);
  auto reader = MakeRepeatedFixedReader(made.Rows(true), &spec,
                                        Base<FixedReader>(&file, made, MakeFixedReader,
                                                          MakeSelectedFixedReader))
                    .ValueOrDie();
  std::vector<int32_t> out(made.copies.size() + 1);
  auto* to = reinterpret_cast<uint8_t*>(out.data());
  EXPECT_FALSE(reader->Read(static_cast<int64_t>(out.size()), to, 4, nullptr).ok());
}

TEST(RepeatedBytesReader, ReturnsEachRowAsOftenAsItHasCopies) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 80; ++round) {
    const RepeatedCase made = RandomCase(random() % 4, random() % 2 == 0, &random);
    std::vector<std::string> strings;
    ColumnData<parquet::ByteArrayType> data;
    for (int64_t i = 0; i < kStoredRows; ++i) {
      strings.push_back(std::string(random() % 20, 'x') + std::to_string(random() % 99));
      data.valid.push_back(random() % 7 != 0);
    }
    for (size_t i = 0; i < strings.size(); ++i) {
      if (data.valid[i] == 0) {
        strings[i] = "null";
        continue;
      }
      data.values.emplace_back(static_cast<uint32_t>(strings[i].size()),
                               reinterpret_cast<const uint8_t*>(strings[i].data()));
    }
    ColumnLayout layout;
    layout.dictionary = random() % 2 == 0;
    layout.page_bytes = 900;
    layout.codec = parquet::Compression::SNAPPY;
    OpenedColumn file(WriteColumn<parquet::ByteArrayType>(
        LeafNode(parquet::Type::BYTE_ARRAY), data, layout));
    ColumnSpec spec = SpecWithFill(DType::kUInt8, "null");
    spec.bytes = true;
    auto reader = MakeRepeatedBytesReader(made.Rows(true), &spec,
                                          Base<BytesReader>(&file, made, MakeBytesReader,
                                                            MakeSelectedBytesReader))
                      .ValueOrDie();
    const Status status = CutToPieces(
        static_cast<int64_t>(made.copies.size()), &random,
        [&](int64_t n) { return reader->Skip(n); },
        [&](int64_t first, int64_t n) -> Status {
          ByteArena arena;  // of this read alone: a sanitizer finds views that outlive it
          std::vector<ByteView> views(static_cast<size_t>(n));
          std::vector<uint8_t> valid(static_cast<size_t>(n), 7);
          ARROW_RETURN_NOT_OK(reader->Read(n, views.data(), valid.data(), &arena));
          for (int64_t i = 0; i < n; ++i) {
            const int64_t selected = made.copies[static_cast<size_t>(first + i)];
            const auto row =
                static_cast<size_t>(made.stored[static_cast<size_t>(selected)]);
            const ByteView& view = views[static_cast<size_t>(i)];
            const std::string got(reinterpret_cast<const char*>(view.data),
                                  static_cast<size_t>(view.size));
            if (got != strings[row] || valid[static_cast<size_t>(i)] != data.valid[row]) {
              return Status::Invalid("copy ", first + i, " differs: ", got);
            }
          }
          return Status::OK();
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

// The content of rows as text, so that rows of different NestedRows can be compared.
std::string TextOf(const ColumnSpec& spec, const NestedRows& rows, int64_t row) {
  std::string text = std::to_string(rows.valid[static_cast<size_t>(row)]) + ":";
  int64_t first = row;
  int64_t end = row + 1;
  for (const auto& offsets : rows.offsets) {
    for (int64_t i = first; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      text += std::to_string(offsets[at + 1] - offsets[at]) + ",";
    }
    first = offsets[static_cast<size_t>(first)];
    end = offsets[static_cast<size_t>(end)];
    text += ";";
  }
  if (spec.bytes) {
    for (int64_t i = first; i < end; ++i) {
      const ByteView& view = rows.views[static_cast<size_t>(i)];
      text.append(reinterpret_cast<const char*>(view.data),
                  static_cast<size_t>(view.size));
      text += ",";
    }
    return text;
  }
  const int64_t item = ItemBytes(spec);
  std::string data(static_cast<size_t>((end - first) * item), '\0');
  rows.values.Copy(first * item, (end - first) * item,
                   reinterpret_cast<uint8_t*>(data.data()));
  return text + data;
}

TEST(RepeatedNestedReader, ReturnsEachRowAsOftenAsItHasCopies) {
  std::mt19937_64 random(5);
  constexpr int64_t kLists = 700;
  for (const NestedCase& nested : NestedCases()) {
    for (uint64_t kind = 0; kind < 3; ++kind) {
      SCOPED_TRACE(nested.name + " kind " + std::to_string(kind));
      const auto array = RandomArray(nested, kLists, {}, &random);
      const auto bytes =
          WriteArray(nested, array, {.dictionary = kind != 1, .page_bytes = 1500});
      const ColumnSpec spec = SpecOf(nested);
      const int leaf = nested.path.empty() ? 0 : nested.path.back();
      OpenedLeaf whole_file(bytes, leaf);
      auto whole = NestedReader::Make(whole_file.Chunk(), &spec).ValueOrDie();
      NestedRows stored;
      ASSERT_TRUE(whole->Read(kLists, &stored, true).ok());
      const std::vector<uint16_t> counts = RandomCounts(kLists, kind, &random);
      const std::vector<uint32_t> copies = RowOfCopy(counts);
      OpenedLeaf file(bytes, leaf);
      GroupCopies group(counts);
      const auto make = [&](const ColumnSpec* base) {
        return NestedReader::Make(file.Chunk(), base);
      };
      auto reader =
          MakeRepeatedNestedReader({.copies = group.rows()}, &spec, make).ValueOrDie();
      const Status status = CutToPieces(
          static_cast<int64_t>(copies.size()), &random,
          [&](int64_t n) { return reader->Skip(n); },
          [&](int64_t first, int64_t n) -> Status {
            NestedRows rows;
            const int64_t before = n / 2;
            ARROW_RETURN_NOT_OK(reader->Read(before, &rows, true));
            ARROW_RETURN_NOT_OK(reader->Read(n - before, &rows, true));
            for (int64_t i = 0; i < n; ++i) {
              if (TextOf(spec, rows, i) !=
                  TextOf(spec, stored, copies[static_cast<size_t>(first + i)])) {
                return Status::Invalid("copy ", first + i, " differs");
              }
            }
            return Status::OK();
          });
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST(DrawCopies, RoundsDownOrUpAndCountsEachRowGroup) {
  const std::vector<double> weights = {0.5, 2, 0, 1.25, 0.75, 300};
  const std::vector<int64_t> edges = {0, 2, 2, 6};
  std::vector<int64_t> sums(weights.size());
  for (uint64_t key = 0; key < 4000; ++key) {
    std::vector<uint16_t> counts(weights.size());
    std::vector<int64_t> rows(3);
    DrawCopies(std::span(weights), std::span<const int64_t>(edges), 1.0, key,
               counts.data(), rows.data());
    EXPECT_EQ(rows[0], counts[0] + counts[1]);
    EXPECT_EQ(rows[1], 0);
    EXPECT_EQ(rows[2], counts[2] + counts[3] + counts[4] + counts[5]);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto low = static_cast<int64_t>(weights[i]);
      EXPECT_TRUE(counts[i] == low ||
                  (counts[i] == low + 1 && weights[i] > static_cast<double>(low)));
      sums[i] += counts[i];
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(sums[i]) / 4000, weights[i], 0.04);
  }
}

}  // namespace
}  // namespace fastload
