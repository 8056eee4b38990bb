// Tests of columns that files lack: the readers of constants, and passes over such files.
#include "fastload/decode/constant_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fastload/decode/values/convert.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::BytesOf;

ColumnSpec Spec(DType dtype, std::optional<std::string> fill,
                std::vector<std::optional<std::string>> constants) {
  ColumnSpec spec;
  spec.name = "column";
  spec.leaves.assign(std::max<size_t>(1, constants.size()), -1);
  spec.dtype = dtype;
  spec.fill = std::move(fill);
  spec.constants = std::move(constants);
  return spec;
}

template <typename T>
void ExpectRows(DType dtype, T value, T fill) {
  SCOPED_TRACE(NameOf(dtype));
  const ColumnSpec spec = Spec(dtype, BytesOf(fill), {std::nullopt, BytesOf(value)});
  for (const int32_t file : {0, 1}) {
    const auto reader = MakeConstantFixedReader(&spec, file);
    for (const size_t stride : {sizeof(T), sizeof(T) + 3}) {
      constexpr size_t kRows = 5;
      std::vector<uint8_t> out(kRows * stride, 0xEE);
      std::vector<uint8_t> valid(kRows + 1, 7);
      ASSERT_TRUE(reader->Skip(1'000'000).ok());
      ASSERT_TRUE(
          reader->Read(kRows, out.data(), static_cast<int64_t>(stride), valid.data())
              .ok());
      for (size_t row = 0; row < kRows; ++row) {
        T item;
        std::memcpy(&item, out.data() + row * stride, sizeof(T));
        EXPECT_EQ(item, file == 0 ? fill : value);
        EXPECT_EQ(valid[row], file);
        for (size_t gap = sizeof(T); gap < stride; ++gap) {
          EXPECT_EQ(out[row * stride + gap], 0xEE);
        }
      }
      EXPECT_EQ(valid[kRows], 7);
    }
  }
}

TEST(ConstantReader, FixedWidth) {
  ExpectRows<int8_t>(DType::kInt8, -3, 4);
  ExpectRows<uint16_t>(DType::kUInt16, 65'535, 0);
  ExpectRows<float>(DType::kFloat32, 1.5F, -2.5F);
  ExpectRows<int64_t>(DType::kInt64, int64_t{1} << 62, -1);
}

TEST(ConstantReader, CodesOfOneEntry) {
  const ColumnSpec spec =
      Spec(DType::kInt32, BytesOf(int32_t{9}), {std::nullopt, BytesOf(int32_t{5})});
  for (const int32_t file : {0, 1}) {
    const auto reader = MakeConstantFixedReader(&spec, file);
    const auto dictionary = *reader->Dictionary();
    ASSERT_EQ(dictionary.size(), sizeof(int32_t));
    int32_t entry;
    std::memcpy(&entry, dictionary.data(), sizeof(entry));
    EXPECT_EQ(entry, file == 0 ? 9 : 5);
    const auto check = [&]<typename Code>(Code) {
      std::vector<Code> codes(4, 1);
      std::vector<uint8_t> valid(4, 7);
      const FixedReader::Codes how{sizeof(Code), 40, 2};
      EXPECT_EQ(*reader->ReadCodes(3, how, reinterpret_cast<uint8_t*>(codes.data()),
                                   valid.data()),
                3);
      const Code code = file == 0 ? 2 : 40;
      EXPECT_EQ(codes, (std::vector<Code>{code, code, code, 1}));
      const auto flag = static_cast<uint8_t>(file);
      EXPECT_EQ(valid, (std::vector<uint8_t>{flag, flag, flag, 7}));
    };
    check(uint8_t{});
    check(uint16_t{});
    check(uint32_t{});
  }
}

TEST(ConstantReader, Bytes) {
  ColumnSpec spec = Spec(DType::kUInt8, "(null)", {std::nullopt, "text", ""});
  spec.bytes = true;
  const std::vector<std::string> expected = {"(null)", "text", ""};
  for (int32_t file = 0; file < 3; ++file) {
    const auto reader = MakeConstantBytesReader(&spec, file);
    std::vector<ByteView> views(3);
    std::vector<uint8_t> valid(3, 7);
    ByteArena arena;
    ASSERT_TRUE(reader->Skip(10).ok());
    ASSERT_TRUE(reader->Read(3, views.data(), valid.data(), &arena).ok());
    for (size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(views[row].data),
                            static_cast<size_t>(views[row].size)),
                expected[static_cast<size_t>(file)]);
      EXPECT_EQ(valid[row], file > 0);
    }
  }
}

TEST(ConstantReader, NullsWithoutFillAreErrors) {
  const ColumnSpec fixed = Spec(DType::kInt64, std::nullopt, {});
  uint8_t out[8];
  uint8_t codes[2];
  const auto reader = MakeConstantFixedReader(&fixed, 0);
  EXPECT_EQ(KindOf(reader->Read(1, out, 8, nullptr)), ErrorKind::kNullValue);
  EXPECT_EQ(KindOf(reader->Dictionary().status()), ErrorKind::kNullValue);
  EXPECT_EQ(KindOf(reader->ReadCodes(1, {}, codes, nullptr).status()),
            ErrorKind::kNullValue);
  ColumnSpec bytes = fixed;
  bytes.bytes = true;
  ByteView view;
  EXPECT_EQ(KindOf(MakeConstantBytesReader(&bytes, 0)->Read(1, &view, nullptr, nullptr)),
            ErrorKind::kNullValue);
  ColumnSpec nested = fixed;
  nested.depth = 1;
  NestedRows rows;
  EXPECT_EQ(KindOf(MakeNullNestedReader(&nested)->Read(1, &rows, false)),
            ErrorKind::kNullValue);
}

TEST(ConstantReader, NullListsAreEmpty) {
  ColumnSpec spec = Spec(DType::kInt64, BytesOf(int64_t{7}), {});
  spec.depth = 2;
  spec.null_lists = true;
  NestedRows rows;
  const auto reader = MakeNullNestedReader(&spec);
  ASSERT_TRUE(reader->Skip(3).ok());
  ASSERT_TRUE(reader->Read(2, &rows, /*valid=*/true).ok());
  using Offsets = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(rows.offsets, (Offsets{{0, 0, 0}, {0}}));
  // The rows follow rows of another file.
  rows.offsets = {{0, 2}, {0, 1, 4}};
  rows.valid = {1};
  ASSERT_TRUE(reader->Read(3, &rows, /*valid=*/true).ok());
  EXPECT_EQ(rows.offsets, (Offsets{{0, 2, 2, 2, 2}, {0, 1, 4}}));
  EXPECT_EQ(rows.valid, (std::vector<uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(rows.values.size(), 0);
}

TEST(ConstantReader, NullListsOfFixedSizeAreAllFill) {
  ColumnSpec spec = Spec(DType::kInt16, BytesOf(int16_t{-2}), {});
  spec.list_size = 3;
  int16_t out[8] = {};
  uint8_t valid[2] = {7, 7};
  const auto reader = MakeConstantFixedReader(&spec, 0);
  EXPECT_EQ(KindOf(reader->Read(2, reinterpret_cast<uint8_t*>(out), 8, valid)),
            ErrorKind::kNullValue);
  spec.null_lists = true;
  EXPECT_TRUE(reader->Dictionary()->empty());
  ASSERT_TRUE(reader->Skip(3).ok());
  ASSERT_TRUE(reader->Read(2, reinterpret_cast<uint8_t*>(out), 8, valid).ok());
  const std::vector<int16_t> rows(out, out + 8);
  EXPECT_EQ(rows, (std::vector<int16_t>{-2, -2, -2, 0, -2, -2, -2, 0}));
  EXPECT_EQ(valid[0] + valid[1], 0);
}

// Three files. The second file lacks `number`, `text` and a column of the stack, and has
// constants for the first two.
class LackingColumns : public ::testing::Test {
 protected:
  LackingColumns() {
    const std::vector<std::vector<int64_t>> row_groups = {{700, 350}, {90, 520}, {401}};
    for (size_t f = 0; f < row_groups.size(); ++f) {
      const std::string path = directory_.File("part-" + std::to_string(f) + ".parquet");
      testing::WriteRows(path, static_cast<int64_t>(f), row_groups[f]);
      files_.push_back(testing::SpecOf(path));
    }
    columns_ = testing::Columns(files_.size());
    for (const size_t column : {size_t{0}, size_t{2}, size_t{7}}) {
      columns_[column].leaves[1] = -1;
    }
    columns_[0].constants = {std::nullopt, BytesOf(kNumber), std::nullopt};
    columns_[2].constants = {std::nullopt, "constant", std::nullopt};
    columns_[7].fill = BytesOf(-3.0F);
  }

  static constexpr int64_t kNumber = 123'456;

  // Returns a row in the form of testing::Text, with the values of the second file's
  // rows.
  static std::string Lacking(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> words(std::istream_iterator<std::string>(stream), {});
    constexpr size_t kStack = 3;
    constexpr size_t kText = kStack + testing::kStacked;
    if (words[kText + 4] != "1") return line;
    words[0] = words[kText + 2] = std::to_string(kNumber);
    words[kStack + 3] = "-3";
    words[kText] = words[kText + 8] = "'constant'";
    words[kText + 1] = "valid";
    std::string joined = words[0];
    for (size_t i = 1; i < words.size(); ++i) joined += " " + words[i];
    return joined;
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  std::vector<ColumnSpec> columns_;
};

TEST_F(LackingColumns, HoldTheirConstants) {
  const std::vector<OutputSpec> outputs = testing::Outputs();
  const Layout layout(columns_, outputs);
  for (const bool shuffled : {false, true}) {
    const ReadPlan plan =
        testing::CutPlan(testing::AllPieces(files_), 333, 100, shuffled);
    std::vector<std::string> expected = testing::PlannedTexts(plan, files_);
    for (const int32_t threads : {0, 3}) {
      Pipeline pipeline(files_, columns_, outputs,
                        PipelineOptions{.threads = threads,
                                        .io_threads = threads,
                                        .batch_memory_bytes = 4 << 20,
                                        .fetch_memory_bytes = 4 << 20});
      auto scan = *pipeline.Start(plan, ScanOptions{.fetch_bytes = 1});
      const testing::Delivered delivered = testing::Deliver(scan.get());
      ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
      size_t row = 0;
      for (const Batch& batch : delivered.batches) {
        for (const std::string& line : testing::Texts(layout, batch)) {
          ASSERT_EQ(line, Lacking(expected[row])) << "row " << row;
          ++row;
        }
      }
      EXPECT_EQ(row, expected.size());
    }
  }
}

TEST_F(LackingColumns, OfAllFilesReadNothing) {
  columns_.resize(1);
  columns_[0].leaves.assign(files_.size(), -1);
  columns_[0].fill = BytesOf(int64_t{5});
  Pipeline pipeline(files_, columns_, {{OutputKind::kColumn, {0}}},
                    PipelineOptions{.threads = 2, .io_threads = 1});
  auto scan = *pipeline.Start(
      testing::CutPlan(testing::AllPieces(files_), 333, 100, false), ScanOptions{});
  const testing::Delivered delivered = testing::Deliver(scan.get());
  ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
  EXPECT_EQ(delivered.batches.size(), 21);
  EXPECT_EQ(pipeline.counters().read_requests, 0);
}

TEST_F(LackingColumns, WithoutFillNameTheFile) {
  columns_[2].constants.clear();
  columns_[2].fill.reset();
  Pipeline pipeline(files_, columns_, {{OutputKind::kRagged, {2}}},
                    PipelineOptions{.threads = 1, .io_threads = 1});
  std::vector<Piece> pieces = {{1, 0, 0, 90}};
  auto scan = *pipeline.Start(testing::CutPlan(pieces, 90, 90, false), ScanOptions{});
  const Status status = testing::Deliver(scan.get()).status;
  EXPECT_EQ(KindOf(status), ErrorKind::kNullValue);
  EXPECT_NE(status.message().find("part-1.parquet, row group 0, column `text`"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace fastload
