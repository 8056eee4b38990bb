#include "fastload/decode/lists/nested_cursor.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "level_pages.h"

namespace fastload {
namespace {

using Levels = std::vector<uint8_t>;

// The levels of a page, and the rows in its header; -1: a V1 page.
struct PageSpec {
  Levels repetition;
  int32_t rows;
};

// Pages whose elements are all present, without values.
class MadePages : public parquet::PageReader {
 public:
  MadePages(std::vector<PageSpec> pages, int* loaded)
      : pages_(std::move(pages)), loaded_(loaded) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    while (next_ < pages_.size()) {
      const PageSpec& spec = pages_[next_++];
      const auto values = static_cast<int32_t>(spec.repetition.size());
      std::optional<int32_t> rows;
      if (spec.rows >= 0) rows = spec.rows;
      if (data_page_filter_(parquet::DataPageStats(nullptr, values, rows))) continue;
      ++*loaded_;
      const auto levels = testing::Encode(spec.repetition, Levels(values, 2));
      if (spec.rows >= 0) {
        return std::make_shared<parquet::DataPageV2>(
            levels.bytes, values, 0, spec.rows, parquet::Encoding::PLAIN,
            levels.definition, levels.repetition, levels.bytes->size());
      }
      // In V1 pages, a length precedes each kind of levels.
      std::vector<uint8_t> bytes;
      const auto put = [&](int64_t first, int32_t size) {
        const auto* length = reinterpret_cast<const uint8_t*>(&size);
        bytes.insert(bytes.end(), length, length + sizeof(size));
        const uint8_t* data = levels.bytes->data() + first;
        bytes.insert(bytes.end(), data, data + size);
      };
      put(0, levels.repetition);
      put(levels.repetition, levels.definition);
      return std::make_shared<parquet::DataPageV1>(
          arrow::Buffer::FromVector(std::move(bytes)), values, parquet::Encoding::PLAIN,
          parquet::Encoding::RLE, parquet::Encoding::RLE, 0);
    }
    return nullptr;
  }

  void set_max_page_header_size(uint32_t /*size*/) override {}

 private:
  std::vector<PageSpec> pages_;
  size_t next_ = 0;
  int* loaded_;
};

class NoValues : public PageValues {
 public:
  Status SetDictionary(const parquet::DictionaryPage& /*page*/) override {
    return Status::OK();
  }
  Status SetPage(parquet::Encoding::type /*encoding*/, const uint8_t* /*data*/,
                 int64_t /*size*/, int64_t /*max_values*/) override {
    skipped_in_page = 0;
    return Status::OK();
  }
  Status Skip(int64_t values) override {
    skipped_in_page += values;
    return Status::OK();
  }
  int64_t skipped_in_page = 0;  // values skipped in the page
};

class NestedCursorTest : public ::testing::Test {
 protected:
  void Open(std::vector<PageSpec> pages, int64_t rows, int64_t levels = INT64_MAX) {
    schema_ = testing::Schema(
        testing::List(parquet::schema::Int32("element", parquet::Repetition::REQUIRED),
                      parquet::Repetition::OPTIONAL));
    ChunkInput input;
    input.pages = std::make_unique<MadePages>(std::move(pages), &loaded_);
    input.descr = schema_->Column(0);
    input.rows = rows;
    input.levels = levels;
    cursor_ = std::make_unique<NestedCursor>(std::move(input), &values_, 0,
                                             PresentLevel(*schema_->Column(0)));
  }

  // Returns the repetition levels of the next rows.
  Result<Levels> Read(int64_t rows) {
    Levels levels;
    ARROW_RETURN_NOT_OK(cursor_->Begin(rows));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const LevelSpan span, cursor_->Next(rows));
      if (span.levels == 0) return levels;
      const size_t before = levels.size();
      levels.resize(before + static_cast<size_t>(span.levels), 1);
      for (int64_t i = 0; i < span.starts; ++i) {
        levels[before + static_cast<size_t>(span.start_levels[i] - span.first)] = 0;
      }
      rows -= span.starts;
    }
  }

  std::unique_ptr<parquet::SchemaDescriptor> schema_;
  NoValues values_;
  int loaded_ = 0;
  std::unique_ptr<NestedCursor> cursor_;
};

TEST_F(NestedCursorTest, RowsGoOnAcrossPages) {
  Open({{{0, 1, 0}, -1}, {{1, 1, 1}, -1}, {{1, 0, 1, 0}, -1}}, 4);
  EXPECT_EQ(*Read(1), (Levels{0, 1}));
  EXPECT_EQ(*Read(1), (Levels{0, 1, 1, 1, 1}));
  EXPECT_EQ(*Read(2), (Levels{0, 1, 0}));
}

TEST_F(NestedCursorTest, SkippedRowsGoOnAcrossPages) {
  Open({{{0, 1, 0}, -1}, {{1, 1, 1}, -1}, {{1, 0, 1, 0}, -1}}, 4);
  ASSERT_TRUE(cursor_->Skip(1).ok());
  ASSERT_TRUE(cursor_->Skip(1).ok());
  EXPECT_EQ(*Read(1), (Levels{0, 1}));
  EXPECT_EQ(values_.skipped_in_page, 1);
}

TEST_F(NestedCursorTest, PassesOverPagesThatTellTheirRows) {
  Open({{{0, 1, 0}, 2}, {{0, 1, 1}, 1}, {{0, 0, 1, 0, 1}, 3}}, 6);
  ASSERT_TRUE(cursor_->Skip(4).ok());
  EXPECT_EQ(*Read(1), (Levels{0, 1}));
  EXPECT_EQ(loaded_, 1);
  EXPECT_EQ(cursor_->page(), 2);
  EXPECT_EQ(*Read(1), (Levels{0, 1}));
}

TEST_F(NestedCursorTest, TheEndOfAPageOfV2EndsItsRow) {
  Open({{{0, 1, 1}, 1}, {{0, 1}, 1}}, 2);
  EXPECT_EQ(*Read(1), (Levels{0, 1, 1}));
  EXPECT_EQ(loaded_, 1);
}

TEST_F(NestedCursorTest, DoesNotRelyOnARowForEachValue) {
  Open({{{0, 1, 0}, 3}, {{0, 1, 1}, 3}}, 3);
  ASSERT_TRUE(cursor_->Skip(2).ok());
  EXPECT_EQ(*Read(1), (Levels{0, 1, 1}));
}

TEST_F(NestedCursorTest, WrongRowsOfAPageAreAnError) {
  Open({{{0, 1, 0}, 1}}, 2);
  const Status status = Read(2).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
  EXPECT_EQ(status.message(), "Expected 1 rows in the page, got 2");
}

TEST_F(NestedCursorTest, APageThatBeginsInsideOfARowIsAnError) {
  for (const int32_t rows : {-1, 1}) {
    Open({{{1, 0, 1}, rows}}, 1);
    const Status status = Read(1).status();
    EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
    EXPECT_EQ(status.message(),
              "Expected a page that begins with a row, got the rest of one");
  }
}

TEST_F(NestedCursorTest, MoreValuesThanTheFooterTellsAreAnError) {
  Open({{{0, 1}, -1}, {{0, 1, 1}, -1}}, 2, /*levels=*/4);
  const Status status = Read(2).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
  EXPECT_EQ(status.message(),
            "Expected pages of as many values as the footer says, got 1 more");
}

TEST_F(NestedCursorTest, FewerRowsThanTheFooterTellsAreAnError) {
  Open({{{0, 1, 0}, -1}}, 5);
  EXPECT_EQ(Read(4).status().message(),
            "Expected 2 more rows, got the end of the column chunk");
  EXPECT_EQ(cursor_->Skip(2).message(), "Expected at least 2 more rows, got 1");
}

}  // namespace
}  // namespace fastload
