#include "fastload/blocks/decoded_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "block_file.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

using std::chrono_literals::operator""ms;

class DecodedQueueTest : public ::testing::Test {
 protected:
  using Key = DecodedQueue::Key;

  std::string Path(Key key) const {
    return directory_.File(std::to_string(key.first) + "-" + std::to_string(key.second));
  }
  static int64_t RowsOf(Key key) { return 1 + key.first * 10 + key.second; }
  uint64_t Write(Key key) const {
    return testing::WriteBlock(Path(key), "name", {RowsOf(key)});
  }
  BlockState Open(Key key, uint64_t written = 0) {
    return queue_.Open(key, Path(key), "name", RowsOf(key), written);
  }
  // Returns the later answer to Ask.
  std::future<Result<DecodedQueue::Block>> Ask(Key key) {
    auto promise = std::make_shared<std::promise<Result<DecodedQueue::Block>>>();
    queue_.Ask(key, [promise](const auto& block) { promise->set_value(block); });
    return promise->get_future();
  }
  template <typename T>
  static bool IsAnswered(const std::future<T>& future) {
    return future.wait_for(0ms) == std::future_status::ready;
  }

  const testing::TemporaryDirectory directory_;
  DecodedQueue queue_{2};
};

TEST_F(DecodedQueueTest, ABlockIsTakenOnceAndKept) {
  auto first = Ask({0, 3});
  auto second = Ask({0, 3});
  EXPECT_EQ(queue_.Take(), Key(0, 3));
  EXPECT_EQ(queue_.Take(), std::nullopt);
  EXPECT_EQ(Open({0, 3}), BlockState::kMissing);
  EXPECT_FALSE(IsAnswered(first));
  Write({0, 3});
  EXPECT_EQ(Open({0, 3}), BlockState::kGood);
  const auto block = *first.get();
  EXPECT_EQ(block->rows(), 4);
  EXPECT_EQ(*second.get(), block);
  EXPECT_EQ(*Ask({0, 3}).get(), block);
  EXPECT_EQ(queue_.Take(), std::nullopt);
}

TEST_F(DecodedQueueTest, TheyAreTakenInTheOrderOfAsking) {
  for (Key key : {Key(1, 0), Key(0, 5), Key(0, 1)}) Ask(key);
  EXPECT_EQ(queue_.Take(), Key(1, 0));
  EXPECT_EQ(queue_.Take(), Key(0, 5));
  EXPECT_EQ(queue_.Take(), Key(0, 1));
}

TEST_F(DecodedQueueTest, DamageIsNotHandedOut) {
  auto asked = Ask({0, 0});
  queue_.Take();
  Write({0, 0});
  testing::Overwrite(Path({0, 0}), testing::FileBytes(Path({0, 0})) / 2, "?");
  EXPECT_EQ(Open({0, 0}), BlockState::kDamaged);
  testing::WriteBlock(Path({0, 0}), "name", {RowsOf({0, 0}) + 1});
  EXPECT_EQ(Open({0, 0}), BlockState::kDamaged);
  EXPECT_FALSE(IsAnswered(asked));
  Write({0, 0});
  EXPECT_EQ(Open({0, 0}), BlockState::kGood);
  EXPECT_TRUE(asked.get().ok());
}

TEST_F(DecodedQueueTest, WhatWasJustWrittenIsNotReadForItsChecksum) {
  const uint64_t written = Write({0, 0});
  testing::Overwrite(Path({0, 0}), testing::FileBytes(Path({0, 0})) / 2, "?");
  EXPECT_EQ(Open({0, 0}, written), BlockState::kGood);
  EXPECT_EQ(Open({0, 0}), BlockState::kGood) << "a checksum that is known";
}

TEST_F(DecodedQueueTest, AFailureNamesTheRowGroup) {
  auto asked = Ask({2, 7});
  queue_.Take();
  queue_.Fail({2, 7}, ErrorKind::kCorruptFile, "Expected a page");
  const Status status = asked.get().status();
  EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
  const auto group = RowGroupOf(status);
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->file, 2);
  EXPECT_EQ(group->row_group, 7);
  Ask({2, 7});
  EXPECT_EQ(queue_.Take(), Key(2, 7)) << "it is asked for anew";
}

TEST_F(DecodedQueueTest, MoreThanAreKeptAreAskedForAnew) {
  constexpr int32_t kBlocks = 130;
  for (int32_t group = 0; group < kBlocks; ++group) {
    const uint64_t written = Write({0, group});
    ASSERT_EQ(Open({0, group}, written), BlockState::kGood);
  }
  EXPECT_TRUE(IsAnswered(Ask({0, kBlocks - 1})));
  EXPECT_FALSE(IsAnswered(Ask({0, 0})));
}

TEST_F(DecodedQueueTest, CloseEndsAllThatWait) {
  auto asked = Ask({0, 0});
  auto taken = std::async(std::launch::async, [&] {
    queue_.Take();
    return queue_.Wait(queue_.Wait(-1, 0ms), 60'000ms);
  });
  queue_.Close();
  queue_.Close();
  taken.get();
  EXPECT_EQ(queue_.Take(), std::nullopt);
  EXPECT_TRUE(queue_.closed());
  EXPECT_EQ(KindOf(asked.get().status()), ErrorKind::kClosed);
  EXPECT_EQ(KindOf(Ask({0, 1}).get().status()), ErrorKind::kClosed);
}

TEST_F(DecodedQueueTest, AWaitEndsWithWhateverIsNext) {
  const int64_t first = queue_.Wait(-1, 0ms);
  EXPECT_EQ(queue_.Wait(first, 1ms), first) << "nothing was";
  Ask({0, 0});
  const int64_t asked = queue_.Wait(first, 60'000ms);
  EXPECT_NE(asked, first);
  Ask({0, 0});
  EXPECT_EQ(queue_.Wait(asked, 1ms), asked) << "it is asked for already";
  auto woken =
      std::async(std::launch::async, [&] { return queue_.Wait(asked, 60'000ms); });
  queue_.Wake();
  EXPECT_NE(woken.get(), asked);
  queue_.Close();
  const int64_t closed = queue_.Wait(asked, 60'000ms);
  EXPECT_EQ(queue_.Wait(closed, 60'000ms), closed) << "there will be nothing more";
}

// Several threads ask for the same blocks while other threads make the blocks.
TEST_F(DecodedQueueTest, EachIsMadeOnceForAllWhoAsk) {
  constexpr int32_t kBlocks = 60;
  std::mutex mutex;
  std::map<Key, int> made;
  const auto make = [&] {
    int64_t seen = -1;
    while (!queue_.closed()) {
      seen = queue_.Wait(seen, 50ms);
      const auto key = queue_.Take();
      if (!key) continue;
      seen = -1;  // more requests may be waiting
      {
        const std::lock_guard lock(mutex);
        ++made[*key];
      }
      EXPECT_EQ(Open(*key, Write(*key)), BlockState::kGood);
    }
  };
  std::atomic<int> wrong = 0;
  const auto ask = [&] {
    std::vector<std::pair<Key, std::future<Result<DecodedQueue::Block>>>> asked;
    for (int32_t group = 0; group < kBlocks; ++group) {
      asked.emplace_back(Key(group % 2, group), Ask({group % 2, group}));
    }
    for (auto& [key, answer] : asked) {
      const auto block = answer.get();
      if (!block.ok() || (*block)->rows() != RowsOf(key)) ++wrong;
    }
  };
  std::array makers = {std::thread(make), std::thread(make)};
  std::array askers = {std::thread(ask), std::thread(ask), std::thread(ask)};
  for (std::thread& asker : askers) asker.join();
  queue_.Close();
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(made.size(), kBlocks);
  for (const auto& [key, times] : made) EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace fastload
