#include "fastload/fetch/fetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fastload/fetch/file_table.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

constexpr int64_t kOffset = 100;
constexpr int64_t kBytes = 40'000;
// The segment size is a size class of the pool, so that the pool counts the bytes of
// segments.
constexpr int64_t kSegment = 4096;

class ChunkStreamTest : public ::testing::TestWithParam<int> {
 protected:
  ChunkStreamTest()
      : io_(GetParam() > 0 ? MakeThreadPool("io", GetParam()) : MakeInlineExecutor()) {
    std::mt19937 random(1);
    for (char& c : bytes_) c = static_cast<char>(random());
    testing::WriteFile(path_, bytes_);
    files_ = std::make_unique<FileTable>(
        std::vector<FileSpec>{{.path = path_,
                               .bytes = testing::FileBytes(path_),
                               .mtime_ns = testing::ModifiedNs(path_)}});
  }
  ~ChunkStreamTest() override {
    io_->Close();
    EXPECT_EQ(pool_.stats().used_bytes, 0);
  }

  std::shared_ptr<ChunkStream> Make(int64_t segment_bytes, int64_t bytes = kBytes) {
    return std::make_shared<ChunkStream>(
        FetchContext{io_.get(), &pool_, files_.get(), &counters_}, 0,
        std::vector<ByteRange>{{kOffset, bytes}}, segment_bytes, 0, cancelled_);
  }

  std::string_view Expected(int64_t position, int64_t bytes) const {
    return std::string_view(bytes_).substr(static_cast<size_t>(kOffset + position),
                                           static_cast<size_t>(bytes));
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("bytes");
  std::string bytes_ = std::string(50'000, ' ');
  std::unique_ptr<FileTable> files_;
  BlockPool pool_{MakePrivateMemory(), 0};
  Counters counters_;
  std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  const std::unique_ptr<Executor> io_;
};

TEST_P(ChunkStreamTest, AnyMixOfReadsAndPeeks) {
  std::mt19937 random(2);
  for (const int64_t segment : {1, 7, 100, 4096, 39'999, 40'000, 40'001, 1 << 20}) {
    const auto stream = Make(segment);
    const int64_t most = segment < 100 ? 300 : 9000;
    int64_t position = 0;
    while (position < kBytes) {
      const int64_t asked = 1 + random() % most;
      const int64_t bytes = std::min(asked, kBytes - position);
      const std::string_view expected = Expected(position, bytes);
      const auto peeked = stream->Peek(asked);
      ASSERT_TRUE(peeked.ok());
      ASSERT_EQ(*peeked, expected) << segment << " at " << position;
      if (random() % 3 == 0) continue;
      if (random() % 2 == 0) {
        std::string out(static_cast<size_t>(asked), ' ');
        ASSERT_EQ(*stream->Read(asked, out.data()), bytes);
        ASSERT_EQ(out.substr(0, static_cast<size_t>(bytes)), expected);
      } else {
        const auto buffer = *stream->Read(asked);
        ASSERT_EQ(std::string_view(*buffer), expected);
      }
      position += bytes;
      ASSERT_EQ(*stream->Tell(), position);
      if (segment < 100 && position > 3000) break;
    }
  }
}

TEST_P(ChunkStreamTest, EndsAtTheEnd) {
  const auto stream = Make(kSegment);
  ASSERT_TRUE(stream->Advance(kBytes - 5).ok());
  EXPECT_EQ(*stream->Peek(100), Expected(kBytes - 5, 5));
  EXPECT_EQ((*stream->Read(100))->size(), 5);
  EXPECT_EQ(*stream->Peek(1), "");
  EXPECT_EQ((*stream->Read(1))->size(), 0);
  char c = 0;
  EXPECT_EQ(*stream->Read(1, &c), 0);
  EXPECT_EQ(counters_.read_bytes, kBytes);
  EXPECT_EQ(counters_.read_requests, (kBytes + kSegment - 1) / kSegment);
}

TEST_P(ChunkStreamTest, StartTellsOnceWhenTheFirstSegmentIsThere) {
  for (const int64_t bytes : {int64_t{10}, kBytes}) {
    const auto stream = Make(kSegment, bytes);
    std::promise<int64_t> told;
    std::future<int64_t> ready = told.get_future();
    EXPECT_FALSE(
        stream->Start([&] { told.set_value(counters_.read_requests.exchange(0)); }));
    while (io_->RunOne()) {
    }
    EXPECT_EQ(ready.get(), 1);
    EXPECT_EQ(*stream->Peek(4), Expected(0, 4));
  }
  const auto nothing = Make(kSegment, 0);
  EXPECT_TRUE(nothing->Start([] { FAIL(); }));
  EXPECT_EQ(*nothing->Peek(4), "");
}

TEST_P(ChunkStreamTest, HoldsTwoSegments) {
  const auto stream = Make(kSegment);
  EXPECT_EQ(stream->MemoryBytes(), 2 * kSegment);
  std::string out(1000, ' ');
  for (int64_t position = 0; position < kBytes; position += 1000) {
    // Peeks at headers that straddle segments.
    ASSERT_TRUE(stream->Peek(1500).ok());
    EXPECT_LE(pool_.stats().used_bytes, 2 * kSegment) << position;
    if (position % 3000 == 0) {
      ASSERT_EQ(*stream->Read(1000, out.data()), 1000);
    } else {
      // Each buffer is joined from at most two segments.
      const auto buffer = *stream->Read(1000);
      EXPECT_LE(pool_.stats().used_bytes, 3 * kSegment) << position;
    }
    EXPECT_LE(pool_.stats().used_bytes, 2 * kSegment) << position;
  }
  EXPECT_EQ(pool_.stats().used_bytes, 0);
  EXPECT_EQ(Make(kSegment, 100)->MemoryBytes(), 100);
}

TEST_P(ChunkStreamTest, BuffersOutliveTheStream) {
  auto stream = Make(kSegment);
  const auto first = *stream->Read(100);
  const auto joined = *stream->Read(5000);
  stream.reset();
  EXPECT_EQ(std::string_view(*first), Expected(0, 100));
  EXPECT_EQ(std::string_view(*joined), Expected(100, 5000));
}

TEST_P(ChunkStreamTest, ErrorsComeFromReads) {
  testing::SetModifiedNs(path_, 1);
  const auto stream = Make(kSegment);
  std::promise<void> told;
  stream->Start([&] { told.set_value(); });
  while (io_->RunOne()) {
  }
  told.get_future().wait();
  char out[8];
  for (const Status& status : {stream->Peek(1).status(), stream->Read(8).status(),
                               stream->Read(8, out).status()}) {
    EXPECT_EQ(KindOf(status), ErrorKind::kSourceChanged);
  }
}

TEST_P(ChunkStreamTest, AFileThatEndsEarly) {
  const auto stream = Make(kSegment);
  // Two segments have arrived, so the next read finds the file open.
  ASSERT_TRUE(stream->Peek(kSegment + 1).ok());
  std::filesystem::resize_file(path_, 30'000);
  // Segments that were read before stay readable; the next read finds another file size.
  Status status;
  int64_t read = 0;
  while (status.ok()) {
    const auto buffer = stream->Read(1000);
    status = buffer.status();
    if (status.ok()) read += (*buffer)->size();
  }
  EXPECT_EQ(KindOf(status), ErrorKind::kSourceChanged);
  EXPECT_EQ(read, 8'000);  // of two segments, 1,000 bytes at a time
}

TEST_P(ChunkStreamTest, CancelledReadsFail) {
  const auto stream = Make(kSegment);
  ASSERT_TRUE(stream->Peek(10).ok());
  *cancelled_ = true;
  // The segment that had arrived stays readable.
  EXPECT_EQ(std::string_view(**stream->Read(100)), Expected(0, 100));
  ASSERT_TRUE(stream->Peek(kSegment - 100).ok());
  EXPECT_EQ(KindOf(stream->Advance(3 * kSegment)), ErrorKind::kClosed);
}

TEST_P(ChunkStreamTest, AnAbandonedStreamDoesNoHarm) {
  for (int i = 0; i < 50; ++i) {
    const auto stream = Make(kSegment);
    stream->Start([] {});
    if (i % 2 == 0) {
      EXPECT_EQ(*stream->Peek(3), Expected(0, 3));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ChunkStreamTest, ::testing::Values(0, 1, 3));

}  // namespace
}  // namespace fastload
