#include "fastload/decode/lists/kept_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace fastload {
namespace {

constexpr int64_t kRows = 100;
constexpr KeptSelections::Key kKey{.file = 0, .row_group = 1, .column = 2, .valid = true};

// The items of row k: k % 4 times the number k.
std::vector<int32_t> ItemsOf(int32_t row) {
  return std::vector<int32_t>(static_cast<size_t>(row % 4), row);
}

// Rows of lists of int32, or of decimal numbers as text; every third row is null.
class Lists final : public NestedReader {
 public:
  explicit Lists(bool text) : text_(text) {}

  Status Skip(int64_t rows) override {
    next_ += static_cast<int32_t>(rows);
    return Status::OK();
  }
  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    if (out->offsets.empty()) out->offsets.assign(1, {0});
    for (int64_t i = 0; i < rows; ++i, ++next_) {
      for (const int32_t item : ItemsOf(next_)) {
        ARROW_RETURN_NOT_OK(text_ ? AddText(item, out) : AddNumber(item, out));
      }
      std::vector<int64_t>& offsets = out->offsets[0];
      offsets.push_back(offsets.back() + static_cast<int64_t>(ItemsOf(next_).size()));
      if (valid) out->valid.push_back(static_cast<uint8_t>(next_ % 3 != 0));
    }
    return Status::OK();
  }
  int64_t page() const override { return 7; }

 private:
  static Status AddNumber(int32_t item, NestedRows* out) {
    ARROW_ASSIGN_OR_RAISE(uint8_t* const to, out->values.Extend(sizeof(item)));
    std::memcpy(to, &item, sizeof(item));
    return Status::OK();
  }
  static Status AddText(int32_t item, NestedRows* out) {
    const std::string text = std::to_string(item);
    const auto size = static_cast<int64_t>(text.size());
    ARROW_ASSIGN_OR_RAISE(uint8_t* const to, out->bytes.Allocate(size));
    std::ranges::copy(text, to);
    out->views.push_back({.data = to, .size = size});
    return Status::OK();
  }

  const bool text_;
  int32_t next_ = 0;
};

ColumnSpec SpecOf(bool text) {
  ColumnSpec spec;
  spec.dtype = text ? DType::kUInt8 : DType::kInt32;
  spec.bytes = text;
  spec.depth = 1;
  return spec;
}

class KeptListsTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<NestedReader> Record(int64_t most_bytes = 1 << 20) {
    return RecordLists(&kept_, kKey, kRows, most_bytes, spec_,
                       std::make_unique<Lists>(GetParam()));
  }

  // Expects that `out` ends with rows from `first` on.
  void ExpectRows(const NestedRows& out, int32_t first, int32_t rows) const {
    const std::vector<int64_t>& offsets = out.offsets[0];
    ASSERT_GT(offsets.size(), static_cast<size_t>(rows));
    const size_t before = offsets.size() - 1 - static_cast<size_t>(rows);
    for (int32_t i = 0; i < rows; ++i) {
      const size_t list = before + static_cast<size_t>(i);
      const std::vector<int32_t> want = ItemsOf(first + i);
      ASSERT_EQ(offsets[list + 1] - offsets[list], static_cast<int64_t>(want.size()));
      for (int64_t item = offsets[list]; item < offsets[list + 1]; ++item) {
        EXPECT_EQ(NumberAt(out, item), first + i);
      }
      EXPECT_EQ(out.valid[list], (first + i) % 3 != 0);
    }
  }

  std::shared_ptr<KeptMemory> memory_ = std::make_shared<KeptMemory>(int64_t{4} << 20);
  KeptSelections kept_{memory_};
  const ColumnSpec spec_ = SpecOf(GetParam());

 private:
  static int32_t NumberAt(const NestedRows& out, int64_t item) {
    if (GetParam()) {
      const ByteView& view = out.views[static_cast<size_t>(item)];
      return std::stoi(std::string(reinterpret_cast<const char*>(view.data),
                                   static_cast<size_t>(view.size)));
    }
    int32_t number = -1;
    out.values.Copy(item * static_cast<int64_t>(sizeof(number)), sizeof(number),
                    reinterpret_cast<uint8_t*>(&number));
    return number;
  }
};

TEST_P(KeptListsTest, RowsAreKeptOnceAllAreRead) {
  auto recorder = Record();
  EXPECT_EQ(recorder->page(), 7);
  {
    NestedRows out;
    ASSERT_TRUE(recorder->Read(33, &out, /*valid=*/true).ok());
    ASSERT_TRUE(recorder->Read(27, &out, /*valid=*/true).ok());
    ExpectRows(out, 0, 60);
    EXPECT_EQ(kept_.Find(kKey), nullptr);
    NestedRows more;
    ASSERT_TRUE(recorder->Read(40, &more, /*valid=*/true).ok());
    ExpectRows(more, 60, 40);
  }
  recorder.reset();
  ASSERT_NE(kept_.Find(kKey), nullptr);

  const auto reader = ReadKeptLists(&kept_, spec_, kept_.Find(kKey));
  NestedRows out;
  // Rows of another chunk of the column lie before.
  ASSERT_TRUE(Lists(GetParam()).Read(9, &out, /*valid=*/true).ok());
  ASSERT_TRUE(reader->Read(10, &out, /*valid=*/true).ok());
  ExpectRows(out, 0, 10);
  ASSERT_TRUE(reader->Skip(15).ok());
  ASSERT_TRUE(reader->Read(70, &out, /*valid=*/true).ok());
  ExpectRows(out, 25, 70);
  ASSERT_TRUE(reader->Read(0, &out, /*valid=*/true).ok());
  ASSERT_TRUE(reader->Read(5, &out, /*valid=*/true).ok());
  ExpectRows(out, 95, 5);
  EXPECT_EQ(KindOf(reader->Skip(1)), ErrorKind::kCorruptFile);
  EXPECT_EQ(KindOf(reader->Read(1, &out, true)), ErrorKind::kCorruptFile);
  EXPECT_EQ(kept_.served(), 1);
}

TEST_P(KeptListsTest, RowsThatAreReadInPartAreKeptByALaterReader) {
  auto skips = Record();
  ASSERT_TRUE(skips->Skip(1).ok());
  NestedRows out;
  ASSERT_TRUE(skips->Read(kRows - 1, &out, /*valid=*/true).ok());
  ExpectRows(out, 1, kRows - 1);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  auto all = Record();
  ASSERT_TRUE(all->Read(kRows, &out, /*valid=*/true).ok());
  EXPECT_NE(kept_.Find(kKey), nullptr);
}

TEST_P(KeptListsTest, RowsOfTooManyBytesAreRefused) {
  auto recorder = Record(/*most_bytes=*/900);  // the offsets alone take 808
  NestedRows out;
  ASSERT_TRUE(recorder->Read(kRows, &out, /*valid=*/true).ok());
  ExpectRows(out, 0, kRows);
  EXPECT_TRUE(kept_.Refuses(kKey));
  EXPECT_EQ(kept_.Find(kKey), nullptr);
}

TEST_P(KeptListsTest, RowsWithoutRoomAreNotKept) {
  memory_->SetLimit(0);
  auto recorder = Record();
  NestedRows out;
  ASSERT_TRUE(recorder->Read(kRows, &out, /*valid=*/true).ok());
  ExpectRows(out, 0, kRows);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_FALSE(kept_.Refuses(kKey));
  EXPECT_EQ(memory_->held_bytes(), 0);
}

// 100 rows of one element each, whose codes wait in their page. The dictionary lacks one.
class DamagedLists final : public NestedReader {
 public:
  Status Skip(int64_t /*rows*/) override { return Status::OK(); }
  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    // A run of 100 times the code 1: its length, doubled, in two bytes of 7 bits.
    const auto page = arrow::Buffer::FromVector(std::vector<uint8_t>{0xc8, 1, 1});
    const auto dictionary = arrow::Buffer::FromVector(std::vector<int32_t>{10});
    HybridDecoder decoder;
    decoder.Reset(page->data(), page->size(), /*bit_width=*/1);
    const HybridDecoder::Position begin = decoder.position();
    ARROW_RETURN_NOT_OK(decoder.Skip(rows));
    out->values.AppendEncoded(rows, sizeof(int32_t),
                              {.page = page,
                               .begin = begin,
                               .end = decoder.position(),
                               .dictionary = dictionary});
    out->offsets.assign(1, std::vector<int64_t>(static_cast<size_t>(rows) + 1));
    std::iota(out->offsets[0].begin(), out->offsets[0].end(), int64_t{0});
    if (valid) out->valid.assign(static_cast<size_t>(rows), 1);
    return Status::OK();
  }
  int64_t page() const override { return 0; }
};

TEST(DamagedKeptLists, RowsWithACodeBeyondTheDictionaryAreNotKept) {
  KeptSelections kept(std::make_shared<KeptMemory>(int64_t{4} << 20));
  const auto recorder = RecordLists(&kept, kKey, kRows, 1 << 20, SpecOf(/*text=*/false),
                                    std::make_unique<DamagedLists>());
  NestedRows out;
  ASSERT_TRUE(recorder->Read(kRows, &out, /*valid=*/true).ok());
  EXPECT_EQ(KindOf(out.values.damage().status), ErrorKind::kCorruptFile);
  EXPECT_EQ(kept.Find(kKey), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Items, KeptListsTest, ::testing::Bool(),
                         [](const auto& suite) -> std::string {
                           return suite.param ? "Text" : "Numbers";
                         });

}  // namespace
}  // namespace fastload
