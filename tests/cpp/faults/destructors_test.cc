// Tests of what runs where there is no memory: destructors, ends and waiters.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arrow/memory_pool.h"
#include "fastload/base/block_memory.h"
#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/base/range_allocator.h"
#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/fetch/remote.h"
#include "fastload/share/shared_batches.h"
#include "faults/failing_new.h"

namespace fastload {
namespace {

using testing::FailingNew;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(WithoutMemory, StatusesThatAreThereFromTheStart) {
  const FailingNew failing(0, FailingNew::kAllFrom);
  const Status thrown = CatchParquet([]() -> Status { throw std::bad_alloc(); });
  const Status fault = CatchParquet([]() -> Status { throw std::string("a long word"); });
  const Status copy = thrown;
  const Status located = At(copy, {.file = "part.parquet", .row_group = 3});
  const Result<int> result = located;
  EXPECT_TRUE(thrown.IsOutOfMemory());
  EXPECT_TRUE(fault.IsOutOfMemory()) << "there is no memory for its message";
  EXPECT_TRUE(result.status().IsOutOfMemory());
  EXPECT_EQ(KindOf(PassClosed()), ErrorKind::kClosed);
  EXPECT_EQ(KindOf(DatasetClosed()), ErrorKind::kClosed);
}

TEST(WithoutMemory, WordsOfLibparquetForMissingMemory) {
  const Status status = CatchParquet([]() -> Status {
    throw parquet::ParquetException("Couldn't deserialize thrift: std::bad_alloc\n");
  });
  EXPECT_TRUE(status.IsOutOfMemory()) << status;
}

TEST(WithoutMemory, BlocksDie) {
  BlockPool pool(MakePrivateMemory(), 64 * kMiB);
  std::vector<std::shared_ptr<Block>> blocks;
  for (int64_t i = 0; i < 200; ++i) blocks.push_back(*pool.Allocate(i * 1000));
  const FailingNew failing(0, FailingNew::kAllFrom);
  blocks.clear();
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ(failing.calls(), 0);
}

// A block that can't be made counts no bytes, whichever allocation fails.
TEST(WithoutMemory, BlocksThatCannotBeMadeAreNotCounted) {
  for (int64_t n = 0; n < 8; ++n) {
    BlockPool pool(MakePrivateMemory(), 64 * kMiB);
    {
      const FailingNew failing(n, FailingNew::kOne);
      try {
        static_cast<void>(pool.Allocate(100'000).ok());
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_EQ(pool.stats().used_bytes, 0) << n;
    EXPECT_EQ((*pool.Allocate(100'000))->size(), 100'000) << n;
  }
}

TEST(WithoutMemory, BuffersOfArrowDie) {
  BlockPool blocks(MakePrivateMemory(), 64 * kMiB);
  BlockMemory pool(&blocks);
  std::vector<std::pair<uint8_t*, int64_t>> buffers;
  for (int64_t i = 1; i < 200; ++i) {
    uint8_t* data = nullptr;
    ASSERT_TRUE(pool.Allocate(i * 1000, 64, &data).ok());
    buffers.emplace_back(data, i * 1000);
  }
  const FailingNew failing(0, FailingNew::kAllFrom);
  for (const auto& [data, bytes] : buffers) pool.Free(data, bytes, 64);
  EXPECT_EQ(failing.calls(), 0);
}

TEST(WithoutMemory, RangesAreFreed) {
  RangeAllocator ranges(0, 100'000, 100'000);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(ranges.Allocate(100), 100 * i);
  {
    const FailingNew failing(0, FailingNew::kAllFrom);
    for (int64_t i = 1; i < 1000; i += 2) ranges.Free(100 * i);
    for (int64_t i = 0; i < 1000; i += 2) ranges.Free(100 * i);
    EXPECT_EQ(failing.calls(), 0);
  }
  ranges.Free(50);  // never allocated
  EXPECT_EQ(ranges.Allocate(100'000), 0);
}

TEST(WithoutMemory, AQueueClosesAndCallsAllWhoWait) {
  RemoteQueue remote;
  std::atomic<int> called{0};
  std::vector<std::shared_ptr<RemoteRead>> reads;
  for (int32_t i = 0; i < 20; ++i) {
    reads.push_back(std::make_shared<RemoteRead>(0, ByteRange{i, 1}));
    ASSERT_TRUE(reads.back()->Then([&] { ++called; }));
    remote.Ask(reads.back(), i, std::make_shared<const std::atomic<bool>>(false));
  }
  ASSERT_TRUE(remote.Take());
  {
    const FailingNew failing(0, FailingNew::kAllFrom);
    remote.Close();
    EXPECT_EQ(failing.calls(), 0);
  }
  EXPECT_EQ(called, 20);
  EXPECT_EQ(KindOf(reads.back()->bytes().status()), ErrorKind::kClosed);
}

TEST(WithoutMemory, AReadThatCannotBeQueuedFails) {
  RemoteQueue queue;
  const auto read = std::make_shared<RemoteRead>(0, ByteRange{0, 8});
  const auto never = std::make_shared<const std::atomic<bool>>(false);
  int called = 0;
  ASSERT_TRUE(read->Then([&] { ++called; }));
  {
    const FailingNew failing(0, FailingNew::kAllFrom);
    EXPECT_TRUE(queue.Ask(read, 0, never));
  }
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(read->bytes().status().IsOutOfMemory());
  // Nor does a read wait that can't be handed out.
  const auto second = std::make_shared<RemoteRead>(0, ByteRange{0, 8});
  EXPECT_TRUE(queue.Ask(second, 0, never));
  {
    const FailingNew failing(0, FailingNew::kAllFrom);
    EXPECT_EQ(queue.Take(), std::nullopt);
  }
  EXPECT_TRUE(second->bytes().status().IsOutOfMemory());
}

TEST(WithoutMemory, ABatchThatCannotBeReceivedIsGivenBack) {
  const auto sender = *BatchSender::Make(16 * kMiB);
  BlockPool pool(sender->Memory(), kMiB);
  const auto receiver = *BatchReceiver::Open(sender->fd());
  const int32_t slot = sender->Send(*pool.Allocate(100), 1, {});
  {
    const FailingNew failing(0, FailingNew::kAllFrom);
    EXPECT_THROW((void)receiver->Take(slot), std::bad_alloc);
  }
  EXPECT_EQ(sender->HeldBytes(), 0);
}

TEST(Waiters, OneThatThrowsLeavesNoOtherWaiting) {
  RemoteQueue remote;
  const auto read = std::make_shared<RemoteRead>(0, ByteRange{0, 1});
  int called = 0;
  for (const bool throws : {false, true, false}) {
    ASSERT_TRUE(read->Then([&called, throws] {
      ++called;
      if (throws) throw std::bad_alloc();
    }));
  }
  remote.Ask(read, 0, std::make_shared<const std::atomic<bool>>(false));
  const auto request = remote.Take();
  remote.Finish(request->id, arrow::Buffer::FromString("x"));
  EXPECT_EQ(called, 3);
}

// A closed queue calls nobody any more: whoever waited may be gone.
TEST(Waiters, AreCalledBeforeTheirQueueIsClosed) {
  RemoteQueue queue;
  const auto read = std::make_shared<RemoteRead>(0, ByteRange{0, 1});
  std::promise<void> called;
  std::atomic<bool> over{false};
  ASSERT_TRUE(read->Then([&] {
    called.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    over = true;
  }));
  queue.Ask(read, 0, std::make_shared<const std::atomic<bool>>(false));
  const auto request = queue.Take();
  std::thread client([&] { queue.Finish(request->id, arrow::Buffer::FromString("x")); });
  called.get_future().wait();
  queue.Close();
  EXPECT_TRUE(over);
  client.join();
}

TEST(ThreadPool, OutlivesATaskThatThrows) {
  const auto pool = MakeThreadPool("test", 2);
  EXPECT_TRUE(pool->fault().ok());
  std::atomic<int> ran{0};
  pool->Submit(0, [](Scratch&) { throw std::runtime_error("a task that throws"); });
  for (int i = 0; i < 10; ++i) pool->Submit(1, [&](Scratch&) { ++ran; });
  pool->Close();
  EXPECT_EQ(ran, 10);
  EXPECT_EQ(KindOf(pool->fault()), ErrorKind::kInternal);
  EXPECT_NE(pool->fault().message().find("a task that throws"), std::string::npos);
}

}  // namespace
}  // namespace fastload
