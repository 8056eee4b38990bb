#include "fastload/blocks/write_behind.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "arrow/array/builder_primitive.h"
#include "arrow/record_batch.h"
#include "fastload/blocks/decoded_block.h"
#include "fastload/blocks/decoded_queue.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

using std::chrono_literals::operator""ms;

WriteBehind::Batches Rows(int64_t rows) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(builder.Append(i).ok());
  const auto schema = arrow::schema({arrow::field("x", arrow::int64(), false)});
  return {arrow::RecordBatch::Make(schema, rows, {builder.Finish().ValueOrDie()})};
}

class WriteBehindTest : public ::testing::Test {
 protected:
  int Open(const std::string& name, int flags = O_RDWR | O_CREAT) const {
    return open(directory_.File(name).c_str(), flags, 0600);
  }
  std::vector<WriteBehind::Written> WaitForWritten(WriteBehind& behind, size_t blocks) {
    std::vector<WriteBehind::Written> all;
    while (all.size() < blocks) {
      for (auto& one : behind.TakeWritten()) all.push_back(std::move(one));
      std::this_thread::sleep_for(1ms);
    }
    return all;
  }

  const testing::TemporaryDirectory directory_;
  std::atomic<int> wakes_ = 0;
};

TEST_F(WriteBehindTest, WritesBlocksInTurn) {
  WriteBehind behind([this] { ++wakes_; });
  for (int64_t number = 0; number < 3; ++number) {
    const int fd = Open(std::to_string(number));
    ASSERT_TRUE(behind.Add(number, fd, "name", Rows(10 + number)).ok());
    close(fd);  // the writer has a descriptor of its own
  }
  const auto written = WaitForWritten(behind, 3);
  for (int64_t number = 0; number < 3; ++number) {
    const auto& one = written[static_cast<size_t>(number)];
    EXPECT_EQ(one.number, number);
    uint64_t checked = 0;
    const auto opened =
        DecodedBlock::Open(directory_.File(std::to_string(number)), "name", &checked);
    ASSERT_EQ(opened.state, BlockState::kGood);
    EXPECT_EQ(opened.block->rows(), 10 + number);
    EXPECT_EQ(checked, one.checksum);
  }
  behind.Close(1000ms);
  EXPECT_EQ(wakes_, 3);
}

TEST_F(WriteBehindTest, TellsWhatTheSystemRefuses) {
  WriteBehind behind([] {});
  close(Open("a"));
  const int fd = Open("a", O_RDONLY);
  ASSERT_TRUE(behind.Add(7, fd, "name", Rows(5)).ok());
  close(fd);
  const auto written = WaitForWritten(behind, 1);
  EXPECT_EQ(written[0].number, 7);
  EXPECT_FALSE(written[0].status.ok());
}

#ifdef __GLIBC__
TEST_F(WriteBehindTest, ABlockThatNoThreadCanWriteIsRefused) {
  WriteBehind behind([] {});
  const int fd = Open("a");
  pthread_attr_t usual;
  pthread_getattr_default_np(&usual);
  pthread_attr_t refused = usual;
  // No address space holds such a stack, so the system refuses a thread.
  pthread_attr_setstacksize(&refused, size_t{1} << 47);
  pthread_setattr_default_np(&refused);
  EXPECT_EQ(KindOf(behind.Add(0, fd, "name", Rows(5))), ErrorKind::kStorage);
  pthread_setattr_default_np(&usual);
  pthread_attr_destroy(&usual);
  EXPECT_FALSE(behind.Drop(0));
  ASSERT_TRUE(behind.Add(1, fd, "name", Rows(5)).ok());
  close(fd);
  EXPECT_EQ(WaitForWritten(behind, 1)[0].number, 1);
}
#endif

TEST_F(WriteBehindTest, CloseWritesWhatWaits) {
  WriteBehind behind([] {});
  const int fd = Open("a");
  for (int64_t number = 0; number < 50; ++number) {
    ASSERT_TRUE(behind.Add(number, fd, "name", Rows(1000)).ok());
  }
  close(fd);
  behind.Close(60'000ms);
  EXPECT_EQ(behind.TakeWritten().size(), 50U);
  EXPECT_FALSE(behind.Drop(49));
  const int other = Open("b");
  EXPECT_FALSE(behind.Add(50, other, "name", Rows(1)).ok());
  close(other);
  behind.Close(0ms);
}

TEST_F(WriteBehindTest, AWriteThatHangsIsLeftAndWhatWaitsIsDropped) {
  // Nobody reads the pipe, so a large write waits for ever; pwrite refuses a pipe, so the
  // thread hangs in `wake` instead.
  std::atomic<bool> hang = true;
  auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    WriteBehind behind([&hang, ended] {
      while (hang) std::this_thread::sleep_for(1ms);
      *ended = true;
    });
    const int fd = Open("a");
    ASSERT_TRUE(behind.Add(0, fd, "name", Rows(1)).ok());
    ASSERT_TRUE(behind.Add(1, fd, "name", Rows(1)).ok());
    ASSERT_TRUE(behind.Add(2, fd, "name", Rows(1)).ok());
    close(fd);
    EXPECT_EQ(WaitForWritten(behind, 1)[0].number, 0);
    EXPECT_TRUE(behind.Drop(1));
    EXPECT_FALSE(behind.Drop(1));
    behind.Close(0ms);
    EXPECT_FALSE(behind.Drop(2));
  }
  hang = false;
  while (!*ended) std::this_thread::sleep_for(1ms);
}

TEST_F(WriteBehindTest, ABlockInMemoryIsCountedAndServedWhileItLives) {
  DecodedQueue queue(2);
  auto block = DecodedBlock::Hold(Rows(100), queue.held_bytes());
  EXPECT_EQ(block->rows(), 100);
  EXPECT_EQ(*queue.held_bytes(), block->held_bytes());
  EXPECT_GE(block->held_bytes(), 800);
  DecodedQueue::Block got;
  const auto arrived = [&got](const Result<DecodedQueue::Block>& found) {
    got = found.ok() ? *found : nullptr;
  };
  queue.Ask({0, 1}, arrived);
  EXPECT_EQ(got, nullptr);
  queue.HandOver({0, 1}, block);
  EXPECT_EQ(got, block);
  got = nullptr;
  queue.Ask({0, 1}, arrived);
  EXPECT_EQ(got, block);
  EXPECT_EQ(queue.Take(), DecodedQueue::Key(0, 1));
  got = nullptr;
  block = nullptr;
  EXPECT_EQ(*queue.held_bytes(), 0);
  queue.Ask({0, 1}, arrived);
  EXPECT_EQ(got, nullptr);
  EXPECT_EQ(queue.Take(), DecodedQueue::Key(0, 1));
  queue.Close();
}

}  // namespace
}  // namespace fastload
