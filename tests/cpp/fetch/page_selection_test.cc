#include "fastload/fetch/page_selection.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "fastload/fetch/page_tables.h"

namespace fastload {
namespace {

// Ten pages of 100 bytes and 10 rows each, behind 50 bytes of a dictionary.
constexpr ByteRange kChunk{1000, 1050};

std::vector<PageExtent> Pages() {
  std::vector<PageExtent> pages;
  for (int64_t i = 0; i < 10; ++i) pages.push_back({1050 + 100 * i, 100, 10 * i});
  return pages;
}

class Bits {
 public:
  explicit Bits(const std::vector<int64_t>& rows) {
    for (const int64_t row : rows) {
      bits_[static_cast<size_t>(row / 8)] |= static_cast<uint8_t>(1 << row % 8);
    }
  }
  RowBits get() const { return {bits_.data(), 100}; }

 private:
  std::vector<uint8_t> bits_ = std::vector<uint8_t>(16, 0);
};

std::vector<std::vector<int64_t>> Numbers(const ChunkPages& pages) {
  std::vector<std::vector<int64_t>> numbers;
  for (const ByteRange& range : pages.ranges) {
    numbers.push_back({range.offset, range.bytes});
  }
  for (const OmittedPages& o : pages.omitted) {
    numbers.push_back({o.row, o.rows, o.page, o.pages});
  }
  return numbers;
}

using Expected = std::vector<std::vector<int64_t>>;

TEST(PickPages, LeavesOutPagesWithoutARow) {
  const Bits bits({15, 55, 56, 60});
  const ChunkPages picked = PickPages(Pages(), kChunk, bits.get(), 0);
  EXPECT_EQ(Numbers(picked), (Expected{{1000, 50},
                                       {1150, 100},
                                       {1550, 200},
                                       {0, 10, 0, 1},
                                       {20, 30, 2, 3},
                                       {70, 30, 7, 3}}));
  EXPECT_EQ(picked.page_rows, (std::vector<int64_t>{10, 10, 10}));
}

TEST(PickPages, ReadsSmallHolesAlong) {
  const Bits bits({15, 55});
  const ChunkPages picked = PickPages(Pages(), kChunk, bits.get(), 300);
  EXPECT_EQ(Numbers(picked), (Expected{{1000, 650}, {60, 40, 6, 4}}));
  EXPECT_EQ(picked.page_rows, (std::vector<int64_t>(6, 10)));
}

TEST(PickPages, LeavesOutADictionaryThatTheCallerHas) {
  const Bits bits({15, 55, 60});
  ChunkPages picked = PickPages(Pages(), kChunk, bits.get(), 0, /*has_dictionary=*/true);
  EXPECT_EQ(
      Numbers(picked),
      (Expected{
          {1150, 100}, {1550, 200}, {0, 10, 0, 1}, {20, 30, 2, 3}, {70, 30, 7, 3}}));
  EXPECT_TRUE(picked.lacks_dictionary);
  // A hole behind the dictionary is not read along.
  picked = PickPages(Pages(), kChunk, bits.get(), 300, /*has_dictionary=*/true);
  EXPECT_EQ(Numbers(picked), (Expected{{1150, 600}, {0, 10, 0, 1}, {70, 30, 7, 3}}));
  std::vector<int64_t> rows;
  for (int64_t page = 0; page < 10; ++page) rows.push_back(10 * page);
  const Bits all(rows);
  picked = PickPages(Pages(), kChunk, all.get(), 0, /*has_dictionary=*/true);
  EXPECT_EQ(Numbers(picked), (Expected{{1050, 1000}}));
  EXPECT_EQ(picked.page_rows, (std::vector<int64_t>(10, 10)));
  // Without an order, nobody knows where the dictionary ends.
  picked = PickPages({}, kChunk, bits.get(), 0, /*has_dictionary=*/true);
  EXPECT_EQ(Numbers(picked), (Expected{{1000, 1050}}));
  EXPECT_FALSE(picked.lacks_dictionary || picked.told_apart);
}

TEST(PickPages, ReadsAllWhereAllStays) {
  std::vector<int64_t> rows;
  for (int64_t page = 0; page < 10; ++page) rows.push_back(10 * page + page);
  const Bits bits(rows);
  const ChunkPages picked = PickPages(Pages(), kChunk, bits.get(), 0);
  EXPECT_EQ(Numbers(picked), (Expected{{1000, 1050}}));
  EXPECT_TRUE(picked.page_rows.empty());
  EXPECT_EQ(Numbers(PickPages(Pages(), kChunk, {nullptr, 100}, 0)),
            (Expected{{1000, 1050}}));
}

TEST(PickPages, ReadsAllWhereTheIndexMakesNoSense) {
  const Bits bits({15});
  const auto whole = [&](const std::vector<PageExtent>& pages) {
    return Numbers(PickPages(pages, kChunk, bits.get(), 0)) == Expected{{1000, 1050}};
  };
  EXPECT_FALSE(whole(Pages()));
  EXPECT_TRUE(whole({}));
  auto pages = Pages();
  pages[3].row = 200;
  EXPECT_TRUE(whole(pages));
  pages = Pages();
  pages[0].row = 1;
  EXPECT_TRUE(whole(pages));
  // A page without rows, in front of a page with a selected row.
  pages = Pages();
  pages[0].row = pages[1].row = 0;
  pages[2].row = 10;
  EXPECT_TRUE(whole(pages));
  pages = Pages();
  pages[9].row = 100;
  EXPECT_TRUE(whole(pages));
  pages = Pages();
  pages[4].offset = 1000;
  EXPECT_TRUE(whole(pages));
  pages = Pages();
  pages[9].bytes = 200;
  EXPECT_TRUE(whole(pages));
  pages = Pages();
  pages[2].bytes = -1;
  EXPECT_TRUE(whole(pages));
}

// Sums of such an offset and a size overflow, which wraps around to a plausible number.
TEST(PickPages, ReadsAllWhereTheIndexHasNumbersBeyondTheChunk) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Bits bits({15, 95});
  for (size_t page = 0; page < 10; ++page) {
    for (const int64_t offset : {kMost, kMost - 50, int64_t{2051}}) {
      auto pages = Pages();
      pages[page].offset = offset;
      EXPECT_EQ(Numbers(PickPages(pages, kChunk, bits.get(), 0)),
                (Expected{{1000, 1050}}));
      pages[page].bytes = kMost;
      EXPECT_EQ(Numbers(PickPages(pages, kChunk, bits.get(), 0)),
                (Expected{{1000, 1050}}));
    }
  }
}

TEST(PickPages, RowsGivenAsNumbersPickThePagesOfBits) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::set<int64_t> rows;
    for (uint32_t n = 1 + random() % 12; n > 0; --n) rows.insert(random() % 100);
    const std::vector<int64_t> numbers(rows.begin(), rows.end());
    const Bits bits(numbers);
    const RowBits given{.rows = 100,
                        .numbers = numbers.data(),
                        .count = static_cast<int64_t>(numbers.size())};
    for (const int64_t hole : {0, 100, 250}) {
      const ChunkPages picked = PickPages(Pages(), kChunk, given, hole);
      const ChunkPages expected = PickPages(Pages(), kChunk, bits.get(), hole);
      EXPECT_EQ(Numbers(picked), Numbers(expected));
      EXPECT_EQ(picked.page_rows, expected.page_rows);
    }
  }
}

TEST(PageTables, KeepsThoseAskedForLast) {
  PageTables tables(3000);
  const auto of = [](size_t pages) {
    auto table = std::make_shared<PageExtents>();
    table->pages.resize(pages);
    return table;
  };
  tables.Keep({0, 0, 0}, of(40));
  tables.Keep({0, 0, 1}, of(40));
  EXPECT_EQ(tables.Find({0, 0, 0})->pages.size(), 40);
  tables.Keep({1, 0, 0}, of(40));
  EXPECT_FALSE(tables.Has({0, 0, 1}));
  EXPECT_TRUE(tables.Has({0, 0, 0}));
  EXPECT_EQ(tables.Find({0, 0, 1}), nullptr);
  tables.Keep({2, 0, 0}, of(4000));  // larger than the limit: alone
  EXPECT_TRUE(tables.Has({2, 0, 0}));
  EXPECT_FALSE(tables.Has({1, 0, 0}));
}

}  // namespace
}  // namespace fastload
