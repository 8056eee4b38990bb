#include "fastload/fetch/cached_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fastload/fetch/fetch.h"
#include "fastload/fetch/file_table.h"
#include "fastload/fetch/local_stream.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

class CachedStreamTest : public ::testing::Test {
 protected:
  CachedStreamTest() {
    std::mt19937 random(1);
    for (char& c : bytes_) c = static_cast<char>(random());
    testing::WriteFile(path_, bytes_);
    files_ = std::make_unique<FileTable>(
        std::vector<FileSpec>{{.path = path_,
                               .bytes = testing::FileBytes(path_),
                               .mtime_ns = testing::ModifiedNs(path_)}});
    for (const ByteRange& range : ranges_) {
      expected_.append(bytes_, static_cast<size_t>(range.offset),
                       static_cast<size_t>(range.bytes));
    }
  }
  ~CachedStreamTest() override { EXPECT_EQ(pool_.stats().used_bytes, 0); }

  std::shared_ptr<CachedStream> Make() {
    return std::make_shared<CachedStream>(
        FetchContext{io_.get(), &pool_, files_.get(), &counters_}, 0, *files_->Open(0),
        ranges_, 1000, cancelled_);
  }

  std::string_view Expected(int64_t position, int64_t bytes) const {
    return std::string_view(expected_).substr(static_cast<size_t>(position),
                                              static_cast<size_t>(bytes));
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("bytes");
  std::string bytes_ = std::string(300'000, ' ');
  const std::vector<ByteRange> ranges_ = {{100, 50'000}, {60'000, 1}, {70'000, 200'000}};
  std::string expected_;
  std::unique_ptr<FileTable> files_;
  BlockPool pool_{MakePrivateMemory(), 0};
  Counters counters_;
  std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  const std::unique_ptr<Executor> io_ = MakeInlineExecutor();
};

TEST_F(CachedStreamTest, AnyMixOfReadsAndPeeksReadsEachByteOnce) {
  std::mt19937 random(2);
  const auto size = static_cast<int64_t>(expected_.size());
  for (int i = 0; i < 20; ++i) {
    const auto stream = Make();
    EXPECT_TRUE(stream->Start([] { FAIL(); }));
    counters_.read_bytes = 0;
    int64_t position = 0;
    while (position < size) {
      const int64_t asked = 1 + random() % (i % 2 == 0 ? 3000 : 60'000);
      const int64_t bytes = std::min(asked, size - position);
      ASSERT_EQ(*stream->Peek(asked), Expected(position, bytes));
      if (random() % 3 == 0) continue;
      if (random() % 2 == 0) {
        std::string out(static_cast<size_t>(asked), ' ');
        ASSERT_EQ(*stream->Read(asked, out.data()), bytes);
        ASSERT_EQ(out.substr(0, static_cast<size_t>(bytes)), Expected(position, bytes));
      } else {
        const auto buffer = *stream->Read(asked);
        ASSERT_EQ(std::string_view(*buffer), Expected(position, bytes));
      }
      position += bytes;
      ASSERT_EQ(*stream->Tell(), position);
    }
    EXPECT_EQ(*stream->Peek(1), "");
    EXPECT_EQ((*stream->Read(1))->size(), 0);
    EXPECT_EQ(counters_.read_bytes, size);
  }
}

TEST_F(CachedStreamTest, WhatIsLeftIsReadAtOnceIfItIsLittle) {
  const auto stream = Make();
  ASSERT_TRUE(stream->Read(150'000).ok());
  EXPECT_LT(counters_.read_bytes, 200'000);
  ASSERT_EQ(*stream->Peek(50'000), Expected(150'000, 50'000));
  EXPECT_EQ(counters_.read_bytes, static_cast<int64_t>(expected_.size()));
}

TEST_F(CachedStreamTest, AtRestItHoldsLittleAndReadsTheSame) {
  const auto stream = Make();
  const auto kept = *stream->Read(1000);
  stream->Rest();
  ASSERT_EQ(*stream->Peek(10), Expected(1000, 10));
  // The few bytes held were not released.
  EXPECT_EQ(counters_.read_bytes, 1000 + (16 << 10));
  EXPECT_EQ(std::string_view(**stream->Read(200'000)), Expected(1000, 200'000));
  stream->Rest();
  EXPECT_EQ(std::string_view(*kept), Expected(0, 1000));
  EXPECT_LT(pool_.stats().used_bytes, 64 << 10);
  EXPECT_EQ(*stream->Peek(200), Expected(201'000, 200));
  EXPECT_LT(counters_.read_bytes, static_cast<int64_t>(expected_.size()) + (16 << 10));
}

TEST_F(CachedStreamTest, BuffersOutliveTheStream) {
  auto stream = Make();
  const auto first = *stream->Read(100);
  const auto second = *stream->Read(100'000);
  stream.reset();
  EXPECT_EQ(std::string_view(*first), Expected(0, 100));
  EXPECT_EQ(std::string_view(*second), Expected(100, 100'000));
}

TEST_F(CachedStreamTest, AFileThatEndsEarly) {
  const auto stream = Make();
  ASSERT_TRUE(stream->Read(10).ok());
  std::filesystem::resize_file(path_, 150'000);
  EXPECT_EQ(KindOf(stream->Read(200'000).status()), ErrorKind::kSourceChanged);
}

TEST_F(CachedStreamTest, CancelledReadsFail) {
  const auto stream = Make();
  ASSERT_TRUE(stream->Peek(10).ok());
  *cancelled_ = true;
  EXPECT_EQ(std::string_view(**stream->Read(10)), Expected(0, 10));
  EXPECT_EQ(KindOf(stream->Read(100'000).status()), ErrorKind::kClosed);
}

// Bytes that were just written are in the page cache, on file systems that report cached
// bytes.
TEST_F(CachedStreamTest, LocalStreamsAreCachedOnesWhereThePageCacheHasAll) {
  const FetchContext context{io_.get(), &pool_, files_.get(), &counters_};
  const StreamOptions options{.segment_bytes = 4096, .cancelled = cancelled_};
  const auto file = *files_->Open(0);
  std::optional<int64_t> seen;
  const auto stream = MakeLocalStream(context, 0, ranges_, options, &seen);
  seen.reset();
  const bool cached = file->IsCached({0, 300'000}, &seen);
  EXPECT_EQ(dynamic_cast<CachedStream*>(stream.get()) != nullptr, cached);
  EXPECT_EQ(stream->MemoryBytes(), 2 * 4096);
  seen.reset();
  EXPECT_FALSE(file->IsCached({0, 300'001}, &seen));
  seen.reset();
  const auto beyond = MakeLocalStream(context, 0, {{0, 300'001}}, options, &seen);
  EXPECT_NE(dynamic_cast<ChunkStream*>(beyond.get()), nullptr);
}

// The range is behind the end of the file, where a look would find no byte.
TEST_F(CachedStreamTest, BytesNearOneThatWasSeenNeedNoLook) {
  const auto file = *files_->Open(0);
  std::optional<int64_t> seen;
  EXPECT_FALSE(file->IsCached({400'000, 1000}, &seen));
  EXPECT_FALSE(seen.has_value());
  for (const int64_t near : {300'000, 400'000, 500'000}) {
    seen = near;
    EXPECT_TRUE(file->IsCached({400'000, 1000}, &seen));
    EXPECT_EQ(seen, near);
  }
  seen = 500'000;
  EXPECT_FALSE(file->IsCached({400'000, 300'000}, &seen));
  seen = 200'000;
  EXPECT_FALSE(file->IsCached({400'000, 1000}, &seen));
}

}  // namespace
}  // namespace fastload
