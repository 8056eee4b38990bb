#include "fastload/decode/pages/kept_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/decode/pages/data_pages.h"
#include "parquet/exception.h"

namespace fastload {
namespace {

constexpr int64_t kLimit = 1 << 20;
constexpr KeptPages::Key kKey{0, 1, 2};

// Pages of a dictionary and of 10 values each, whose memory is overwritten when the next
// page is read.
class SomePages final : public parquet::PageReader {
 public:
  explicit SomePages(std::vector<int> sizes, bool v2 = false, size_t broken = SIZE_MAX)
      : sizes_(std::move(sizes)), v2_(v2), broken_(broken) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    while (next_ < sizes_.size()) {
      const size_t number = next_++;
      if (number == broken_) throw parquet::ParquetException("a broken page");
      memory_.assign(static_cast<size_t>(sizes_[number]), static_cast<uint8_t>(number));
      auto bytes = std::make_shared<arrow::Buffer>(memory_.data(), sizes_[number]);
      if (number == 0) {
        return std::make_shared<parquet::DictionaryPage>(bytes, 3,
                                                         parquet::Encoding::PLAIN, true);
      }
      const std::optional<int64_t> rows = v2_ ? std::optional<int64_t>(10) : std::nullopt;
      if (data_page_filter_ &&
          data_page_filter_(parquet::DataPageStats(nullptr, 10, rows))) {
        continue;
      }
      if (v2_) {
        return std::make_shared<parquet::DataPageV2>(
            bytes, 10, 4, 10, parquet::Encoding::RLE_DICTIONARY, 2, 1, sizes_[number]);
      }
      return std::make_shared<parquet::DataPageV1>(
          bytes, 10, parquet::Encoding::RLE_DICTIONARY, parquet::Encoding::RLE,
          parquet::Encoding::BIT_PACKED, sizes_[number]);
    }
    return nullptr;
  }
  void set_max_page_header_size(uint32_t) override {}

 private:
  const std::vector<int> sizes_;
  const bool v2_;
  const size_t broken_;
  size_t next_ = 0;
  std::vector<uint8_t> memory_;
};

int64_t BytesOf(const std::vector<int>& sizes) {
  // Every page has a header.
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) +
         20 * static_cast<int64_t>(sizes.size());
}

std::unique_ptr<parquet::PageReader> Record(KeptPages* kept,
                                            const std::vector<int>& sizes,
                                            const KeptPages::Key& key = kKey,
                                            bool v2 = false) {
  return kept->Record(key, 10 * (static_cast<int64_t>(sizes.size()) - 1), BytesOf(sizes),
                      std::make_unique<SomePages>(sizes, v2));
}

// Returns what a page is made of.
std::string TextOf(const parquet::Page& page) {
  std::string text = std::to_string(static_cast<int>(page.type())) + " ";
  for (int i = 0; i < page.size(); ++i) text += std::to_string(page.data()[i]);
  const auto add = [&](auto... numbers) {
    ((text += " " + std::to_string(static_cast<int64_t>(numbers))), ...);
  };
  switch (page.type()) {
    case parquet::PageType::DICTIONARY_PAGE: {
      const auto& dictionary = static_cast<const parquet::DictionaryPage&>(page);
      add(dictionary.num_values(), dictionary.encoding(), dictionary.is_sorted());
      break;
    }
    case parquet::PageType::DATA_PAGE: {
      const auto& data = static_cast<const parquet::DataPageV1&>(page);
      add(data.num_values(), data.encoding(), data.definition_level_encoding(),
          data.repetition_level_encoding(), data.uncompressed_size());
      break;
    }
    default: {
      const auto& data = static_cast<const parquet::DataPageV2&>(page);
      add(data.num_values(), data.num_nulls(), data.num_rows(), data.encoding(),
          data.definition_levels_byte_length(), data.repetition_levels_byte_length(),
          data.uncompressed_size());
    }
  }
  return text;
}

std::vector<std::string> ReadAll(parquet::PageReader* pages) {
  std::vector<std::string> texts;
  while (const auto page = pages->NextPage()) texts.push_back(TextOf(*page));
  return texts;
}

class KeptPagesTest : public ::testing::TestWithParam<bool> {
 protected:
  KeptPages kept_{kLimit};
  const std::vector<int> sizes_ = {5, 100, 0, 77};
};

TEST_P(KeptPagesTest, APassLaterReadsTheSamePages) {
  SomePages stored(sizes_, GetParam());
  const auto expected = ReadAll(&stored);
  ASSERT_EQ(expected.size(), 4);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(ReadAll(Record(&kept_, sizes_, kKey, GetParam()).get()), expected);
  for (int64_t pass = 1; pass < 3; ++pass) {
    const auto chunk = kept_.Find(kKey);
    ASSERT_NE(chunk, nullptr);
    EXPECT_EQ(chunk->levels(), 30);
    EXPECT_EQ(ReadAll(kept_.Read(chunk).get()), expected);
    EXPECT_EQ(kept_.stats().served, pass);
  }
  EXPECT_GT(kept_.stats().bytes, 0);
  EXPECT_LE(kept_.stats().bytes, kLimit);
}

TEST_P(KeptPagesTest, TheFilterSeesEveryDataPage) {
  ReadAll(Record(&kept_, sizes_, kKey, GetParam()).get());
  const auto pages = kept_.Read(kept_.Find(kKey));
  int seen = 0;
  pages->set_data_page_filter([&](const parquet::DataPageStats& stats) {
    EXPECT_EQ(stats.num_values, 10);
    EXPECT_EQ(stats.num_rows.has_value(), GetParam());
    return ++seen == 2;
  });
  EXPECT_EQ(ReadAll(pages.get()).size(), 3);
  EXPECT_EQ(seen, 3);
}

INSTANTIATE_TEST_SUITE_P(BothVersions, KeptPagesTest, ::testing::Bool());

TEST_F(KeptPagesTest, AChunkThatIsReadInPartIsNotKept) {
  {
    const auto pages = Record(&kept_, sizes_);
    pages->NextPage();
    pages->NextPage();
  }
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(kept_.stats().bytes, 0);
  ReadAll(Record(&kept_, sizes_).get());
  EXPECT_NE(kept_.Find(kKey), nullptr);
}

TEST_F(KeptPagesTest, AWholeChunkIsKeptThoughItsReaderStops) {
  SomePages stored(sizes_, false);
  const auto expected = ReadAll(&stored);
  {
    const auto pages = kept_.RecordWhole(kKey, 30, BytesOf(sizes_),
                                         std::make_unique<SomePages>(sizes_, false));
    int seen = 0;
    pages->set_data_page_filter(
        [&](const parquet::DataPageStats&) { return ++seen == 1; });
    EXPECT_EQ(TextOf(*pages->NextPage()), expected[0]);
    EXPECT_EQ(TextOf(*pages->NextPage()), expected[2]);
  }
  ASSERT_NE(kept_.Find(kKey), nullptr);
  EXPECT_EQ(ReadAll(kept_.Read(kept_.Find(kKey)).get()), expected);
}

TEST_F(KeptPagesTest, AllPagesOfAWholeChunkAreReadThoughTheyDoNotFit) {
  SomePages stored(sizes_, false);
  const auto expected = ReadAll(&stored);
  for (const int64_t room : {1, 50, 110, 180}) {
    const auto pages =
        kept_.RecordWhole(kKey, 30, room, std::make_unique<SomePages>(sizes_, false));
    EXPECT_EQ(ReadAll(pages.get()), expected) << room;
    EXPECT_EQ(kept_.Find(kKey), nullptr);
  }
  // A reader that passes over the page without room.
  const KeptPages::Key other(3, 2, 1);
  const auto pages =
      kept_.RecordWhole(other, 30, 8, std::make_unique<SomePages>(sizes_, false));
  int seen = 0;
  pages->set_data_page_filter([&](const parquet::DataPageStats&) { return ++seen == 1; });
  EXPECT_EQ(ReadAll(pages.get()),
            std::vector<std::string>({expected[0], expected[2], expected[3]}));
}

TEST_F(KeptPagesTest, ABrokenPageOfAWholeChunkFailsWhenItsReaderComes) {
  const auto pages =
      kept_.RecordWhole(kKey, 30, 300, std::make_unique<SomePages>(sizes_, false, 3));
  for (int page = 0; page < 3; ++page) EXPECT_NE(pages->NextPage(), nullptr);
  EXPECT_THROW(pages->NextPage(), parquet::ParquetException);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
}

TEST_P(KeptPagesTest, ALateRecordingReadsTheFirstPagesOnceMore) {
  SomePages stored(sizes_, GetParam());
  const auto expected = ReadAll(&stored);
  for (int before = 0; before <= 4; ++before) {
    const KeptPages::Key key{0, before, 0};
    const auto [pages, recording] = kept_.RecordLater(
        key, 30, BytesOf(sizes_), std::make_unique<SomePages>(sizes_, GetParam()),
        [&] { return std::make_unique<SomePages>(sizes_, GetParam()); });
    ASSERT_NE(recording, nullptr);
    std::vector<std::string> texts;
    for (int page = 0; page < before; ++page) {
      const auto next = pages->NextPage();
      texts.push_back(TextOf(*next));
      EXPECT_EQ(dynamic_cast<const KeptPage*>(next->buffer().get()), nullptr);
    }
    EXPECT_EQ(kept_.Find(key), nullptr);
    recording->Begin();
    EXPECT_EQ(kept_.Find(key) != nullptr, before == 4);
    for (auto& text : ReadAll(pages.get())) texts.push_back(std::move(text));
    EXPECT_EQ(texts, expected);
    ASSERT_NE(kept_.Find(key), nullptr) << before;
    EXPECT_EQ(ReadAll(kept_.Read(kept_.Find(key)).get()), expected);
  }
}

TEST_F(KeptPagesTest, ALateRecordingThatFailsLeavesThePagesToTheirReader) {
  const std::vector<std::function<Result<std::unique_ptr<parquet::PageReader>>()>> ways =
      {
          [] { return Status::IOError("a broken file"); },
          [] { return std::make_unique<SomePages>(std::vector{5}); },
          [&] { return std::make_unique<SomePages>(sizes_, false, 1); },
          [&]() -> std::unique_ptr<parquet::PageReader> { throw std::bad_alloc(); },
  };
  for (const auto& open : ways) {
    const auto [pages, recording] = kept_.RecordLater(
        kKey, 30, BytesOf(sizes_), std::make_unique<SomePages>(sizes_), open);
    for (int page = 0; page < 2; ++page) EXPECT_NE(pages->NextPage(), nullptr);
    recording->Begin();
    EXPECT_EQ(kept_.stats().bytes, 0);
    EXPECT_EQ(ReadAll(pages.get()).size(), 2);
    EXPECT_EQ(kept_.Find(kKey), nullptr);
  }
  ReadAll(Record(&kept_, sizes_).get());
  EXPECT_NE(kept_.Find(kKey), nullptr);
}

TEST_F(KeptPagesTest, ALateRecordingThatNeverBeginsKeepsNothing) {
  {
    const auto [pages, recording] =
        kept_.RecordLater(kKey, 30, BytesOf(sizes_), std::make_unique<SomePages>(sizes_),
                          [&] { return std::make_unique<SomePages>(sizes_); });
    EXPECT_EQ(ReadAll(pages.get()).size(), 4);
  }
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(kept_.stats().bytes, 0);
  const auto [pages, recording] = kept_.RecordLater(
      kKey, 30, kLimit + 1, std::make_unique<SomePages>(sizes_), nullptr);
  EXPECT_EQ(recording, nullptr);
  EXPECT_EQ(ReadAll(pages.get()).size(), 4);
}

TEST_F(KeptPagesTest, APageThatIsLeftOutEndsTheRecording) {
  const auto pages = Record(&kept_, sizes_);
  int seen = 0;
  pages->set_data_page_filter([&](const parquet::DataPageStats&) { return ++seen == 2; });
  EXPECT_EQ(ReadAll(pages.get()).size(), 3);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(kept_.stats().bytes, 0);
}

TEST_F(KeptPagesTest, ABrokenPageIsNotKept) {
  {
    const auto pages =
        kept_.Record(kKey, 30, 300, std::make_unique<SomePages>(sizes_, false, 3));
    EXPECT_THROW(ReadAll(pages.get()), parquet::ParquetException);
  }
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(kept_.stats().bytes, 0);
}

TEST_F(KeptPagesTest, AChunkLargerThanItsFooterSaysIsReadAllTheSame) {
  auto pages = kept_.Record(kKey, 30, 20, std::make_unique<SomePages>(sizes_));
  EXPECT_EQ(ReadAll(pages.get()).size(), 4);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  pages.reset();
  EXPECT_EQ(kept_.stats().bytes, 0);
}

TEST_F(KeptPagesTest, OneOfTwoReadersRecords) {
  const auto first = Record(&kept_, sizes_);
  const auto second = Record(&kept_, sizes_);
  EXPECT_EQ(ReadAll(second.get()), ReadAll(first.get()));
  EXPECT_NE(kept_.Find(kKey), nullptr);
}

TEST_F(KeptPagesTest, AChunkOfManyBytesIsKept) {
  KeptPages kept(int64_t{16} << 20);
  const std::vector<int> sizes = {8, 700'000, 600'000, 5000, 0, 900'000, 0, 77};
  SomePages stored(sizes);
  const auto expected = ReadAll(&stored);
  EXPECT_EQ(ReadAll(Record(&kept, sizes).get()), expected);
  ASSERT_NE(kept.Find(kKey), nullptr);
  EXPECT_EQ(ReadAll(kept.Read(kept.Find(kKey)).get()), expected);
  EXPECT_GE(kept.stats().bytes, BytesOf(sizes));
  kept.SetLimit(0);
  EXPECT_EQ(kept.stats().bytes, 0);
}

TEST_F(KeptPagesTest, FirstPagesOfManyChunksLieTogether) {
  KeptPages kept(int64_t{1} << 30);
  const std::vector<int> sizes = {5000, 20'000, 4'000'000};
  std::vector<std::unique_ptr<parquet::PageReader>> readers;
  std::vector<const uint8_t*> places;
  std::vector<std::shared_ptr<parquet::Page>> pages;
  for (int32_t leaf = 0; leaf < 40; ++leaf) {
    readers.push_back(Record(&kept, sizes, {0, 0, leaf}));
    for (int page = 0; page < 2; ++page) {
      pages.push_back(readers.back()->NextPage());
      places.push_back(pages.back()->data());
    }
  }
  const auto [first, last] = std::ranges::minmax(places);
  EXPECT_LE(last - first, 40 * 25'000 + 40 * 2 * 64);
  // What is not read yet is reserved.
  EXPECT_GE(kept.stats().bytes, 40 * BytesOf(sizes));
  readers.clear();
  pages.clear();
  EXPECT_EQ(kept.stats().bytes, 0);
}

TEST_F(KeptPagesTest, AChunkWithoutRoomForAllItsPagesIsNotRecorded) {
  const std::vector<int> sizes = {8, 20'000, 600'000};
  auto first = Record(&kept_, sizes);
  first->NextPage();
  const KeptPages::Key other{0, 1, 3};
  ReadAll(Record(&kept_, sizes, other).get());
  EXPECT_EQ(kept_.Find(other), nullptr);
  EXPECT_LE(kept_.stats().bytes, kLimit);
  first.reset();
  EXPECT_EQ(kept_.stats().bytes, 0);
  ReadAll(Record(&kept_, sizes, other).get());
  EXPECT_NE(kept_.Find(other), nullptr);
}

TEST_F(KeptPagesTest, BytesNeverExceedTheLimit) {
  const std::vector<int> sizes = {8, 50'000, 50'000};
  for (int32_t group = 0; group < 40; ++group) {
    EXPECT_EQ(ReadAll(Record(&kept_, sizes, {0, group, 0}).get()).size(), 3);
    EXPECT_LE(kept_.stats().bytes, kLimit);
  }
  int kept = 0;
  for (int32_t group = 0; group < 40; ++group) {
    kept += kept_.Find({0, group, 0}) != nullptr ? 1 : 0;
  }
  EXPECT_GE(kept, 5);
  EXPECT_LE(kept, 10);
  EXPECT_NE(kept_.Find({0, 0, 0}), nullptr);  // the first stay
}

TEST_F(KeptPagesTest, ALowerLimitLetsGoOfTheLast) {
  const std::vector<int> sizes = {8, 50'000, 50'000};
  for (int32_t group = 0; group < 6; ++group) {
    ReadAll(Record(&kept_, sizes, {0, group, 0}).get());
  }
  kept_.SetLimit(kLimit / 2);
  EXPECT_LE(kept_.stats().bytes, kLimit / 2);
  EXPECT_NE(kept_.Find({0, 0, 0}), nullptr);
  EXPECT_EQ(kept_.Find({0, 5, 0}), nullptr);
  kept_.SetLimit(kLimit);
  EXPECT_EQ(kept_.stats().limit, kLimit);
  kept_.SetLimit(0);
  EXPECT_EQ(kept_.stats().bytes, 0);
  EXPECT_EQ(kept_.Find({0, 0, 0}), nullptr);
}

TEST_F(KeptPagesTest, PagesOutliveALowerLimitAndTheOwner) {
  std::shared_ptr<parquet::Page> page;
  {
    KeptPages kept(kLimit);
    ReadAll(Record(&kept, sizes_).get());
    const auto pages = kept.Read(kept.Find(kKey));
    page = pages->NextPage();
    kept.SetLimit(0);
    EXPECT_EQ(ReadAll(pages.get()).size(), 3);
  }
  EXPECT_EQ(page->size(), 5);
  EXPECT_EQ(page->data()[4], 0);
  EXPECT_NE(dynamic_cast<const KeptPage*>(page->buffer().get()), nullptr);
}

TEST_F(KeptPagesTest, RecordedPagesOutliveTheReader) {
  SomePages stored(sizes_);
  const auto expected = ReadAll(&stored);
  std::vector<std::shared_ptr<parquet::Page>> read;
  // The last chunk has fewer bytes than its pages, so that its recording ends early.
  for (const int64_t bytes : {BytesOf(sizes_), int64_t{150}}) {
    const auto pages = kept_.Record({0, static_cast<int32_t>(bytes), 0}, 30, bytes,
                                    std::make_unique<SomePages>(sizes_));
    while (auto page = pages->NextPage()) {
      const bool kept = dynamic_cast<const KeptPage*>(page->buffer().get()) != nullptr;
      EXPECT_EQ(kept, read.size() < 7) << read.size();
      if (kept) read.push_back(std::move(page));
    }
  }
  kept_.SetLimit(0);
  ASSERT_EQ(read.size(), 7);
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(TextOf(*read[i]), expected[i % expected.size()]);
  }
}

TEST_F(KeptPagesTest, WithoutALimitNothingIsKept) {
  KeptPages none(0);
  EXPECT_EQ(ReadAll(Record(&none, sizes_).get()).size(), 4);
  EXPECT_EQ(none.Find(kKey), nullptr);
  EXPECT_EQ(none.stats().bytes, 0);
}

TEST_F(KeptPagesTest, ManyThreads) {
  const std::vector<int> sizes = {8, 20'000, 20'000};
  SomePages stored(sizes);
  const auto expected = ReadAll(&stored);
  std::vector<std::thread> threads;
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < 200; ++i) {
        const KeptPages::Key key{0, (i + 7 * t) % 40, 0};
        const auto chunk = kept_.Find(key);
        const auto pages = chunk ? kept_.Read(chunk) : Record(&kept_, sizes, key);
        EXPECT_EQ(ReadAll(pages.get()), expected);
        if (t == 0 && i == 100) kept_.SetLimit(kLimit / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(kept_.stats().bytes, kLimit / 2);
}

}  // namespace
}  // namespace fastload
