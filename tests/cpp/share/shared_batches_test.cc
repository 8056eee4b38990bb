#include "fastload/share/shared_batches.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fastload/base/memory.h"

namespace fastload {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr std::array<int64_t, 3> kAreas = {64, 128, 7};

std::shared_ptr<Block> BlockOf(BlockPool& pool, const std::string& text, int64_t bytes) {
  auto block = *pool.Allocate(bytes);
  std::memcpy(block->data(), text.c_str(), text.size() + 1);
  return block;
}

std::string TextOf(const ReceivedBatch& batch) {
  return reinterpret_cast<const char*>(batch.data());
}

// Runs the function in a child of fork(), and returns the child's exit status.
int InChild(const std::function<bool()>& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class SharedBatches : public testing::Test {
 protected:
  const std::shared_ptr<BatchSender> sender_ = *BatchSender::Make(64 * kMiB);
  BlockPool pool_{sender_->Memory(), 16 * kMiB};

  int32_t Send(const std::string& text, int64_t bytes = 5000) {
    return sender_->Send(BlockOf(pool_, text, bytes), 10, kAreas);
  }
};

TEST_F(SharedBatches, ArriveInAnotherProcess) {
  ASSERT_TRUE(sender_->Describe("what they are").ok());
  EXPECT_FALSE(sender_->met());
  const int32_t first = Send("one");
  const int32_t second = Send("two", 3 * kMiB);
  EXPECT_EQ(InChild([&] {
              auto receiver = *BatchReceiver::Open(sender_->fd());
              const auto one = *receiver->Take(first);
              const auto two = *receiver->Take(second);
              return receiver->description() == "what they are" &&
                     TextOf(*one) == "one" && one->size() == 5000 && one->rows() == 10 &&
                     TextOf(*two) == "two" && std::ranges::equal(two->areas(), kAreas);
            }),
            0);
  EXPECT_TRUE(sender_->met());
  EXPECT_EQ(sender_->HeldBytes(), 0);
  EXPECT_EQ(pool_.stats().used_bytes, 0);
}

TEST_F(SharedBatches, AreKeptUntilTheReceiverIsDone) {
  auto receiver = *BatchReceiver::Open(sender_->fd());
  const int32_t slot = Send("kept");
  EXPECT_EQ(sender_->HeldBytes(), 0);  // no receiver has taken the batch yet
  auto batch = *receiver->Take(slot);
  EXPECT_EQ(sender_->HeldBytes(), SizeClass(5000));
  for (int i = 0; i < 100; ++i) (void)*receiver->Take(Send("others"));
  EXPECT_EQ(TextOf(*batch), "kept");
  receiver.reset();
  EXPECT_EQ(TextOf(*batch), "kept");
  batch.reset();
  EXPECT_EQ(sender_->HeldBytes(), 0);
  EXPECT_LE(pool_.stats().mapped_total, 3);
}

TEST_F(SharedBatches, AreReceivedOnce) {
  auto receiver = *BatchReceiver::Open(sender_->fd());
  const int32_t slot = Send("once");
  const auto batch = *receiver->Take(slot);
  EXPECT_FALSE(receiver->Take(slot).ok());
  EXPECT_FALSE(receiver->Take(slot + 1).ok());
  EXPECT_FALSE(receiver->Take(-1).ok());
  EXPECT_FALSE(receiver->Take(1 << 20).ok());
}

TEST_F(SharedBatches, AForkOfTheReceiverGivesNothingBack) {
  auto receiver = *BatchReceiver::Open(sender_->fd());
  auto batch = *receiver->Take(Send("mine"));
  EXPECT_EQ(InChild([&] {
              const bool readable = TextOf(*batch) == "mine";
              batch.reset();
              return readable;
            }),
            0);
  EXPECT_GT(sender_->HeldBytes(), 0);
}

TEST_F(SharedBatches, OutliveTheirSender) {
  auto sender = *BatchSender::Make(16 * kMiB);
  auto receiver = *BatchReceiver::Open(sender->fd());
  auto pool = std::make_unique<BlockPool>(sender->Memory(), kMiB);
  const int32_t slot = sender->Send(BlockOf(*pool, "late", 100), 1, {});
  pool.reset();
  sender.reset();
  const auto batch = *receiver->Take(slot);
  EXPECT_EQ(TextOf(*batch), "late");
}

TEST_F(SharedBatches, CancelledOnesAreTakenBack) {
  sender_->Cancel(Send("nobody's"));
  EXPECT_EQ(sender_->HeldBytes(), 0);
  EXPECT_EQ(pool_.stats().used_bytes, 0);
}

TEST_F(SharedBatches, BlocksThatAreNotInTheMemoryAreNotSent) {
  BlockPool others(MakePrivateMemory(), kMiB);
  EXPECT_EQ(sender_->Send(*others.Allocate(100), 1, {}), -1);
}

TEST_F(SharedBatches, AFullMappingGivesOrdinaryMemory) {
  auto sender = *BatchSender::Make(2 * kMiB);
  BlockPool pool(sender->Memory(), 0);
  const auto shared = *pool.Allocate(kMiB);
  const auto ordinary = *pool.Allocate(4 * kMiB);
  std::memset(ordinary->data(), 1, static_cast<size_t>(ordinary->size()));
  EXPECT_GE(sender->Send(shared, 1, {}), 0);
  EXPECT_EQ(sender->Send(ordinary, 1, {}), -1);
}

TEST_F(SharedBatches, SlotsRunOutWithoutHarm) {
  auto receiver = *BatchReceiver::Open(sender_->fd());
  std::vector<int32_t> slots;
  auto block = BlockOf(pool_, "often", 100);
  for (int32_t slot = 0; slot >= 0;) {
    slot = sender_->Send(block, 1, {});
    if (slot >= 0) slots.push_back(slot);
  }
  EXPECT_EQ(slots.size(), 4096);
  for (const int32_t slot : slots) EXPECT_EQ(TextOf(**receiver->Take(slot)), "often");
  EXPECT_GE(sender_->Send(block, 1, {}), 0);
}

TEST_F(SharedBatches, SentAndGivenBackByThreads) {
  auto receiver = *BatchReceiver::Open(sender_->fd());
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string text = std::to_string(t) + "/" + std::to_string(i);
        EXPECT_EQ(TextOf(**receiver->Take(Send(text))), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sender_->HeldBytes(), 0);
}

// Returns the words of the slot of the batch of `bytes` bytes that was sent last.
int64_t* SlotOf(int64_t bytes, const SharedMapping& mapping) {
  auto* words = reinterpret_cast<int64_t*>(mapping.data());
  while (words[1] != bytes || words[2] != 10 || words[4] != std::ssize(kAreas)) {
    ++words;
  }
  return words;
}

TEST_F(SharedBatches, OutsideOfTheMemoryAreRefused) {
  auto receiver = *BatchReceiver::Open(sender_->fd());
  const int64_t size = receiver->mapping().size();
  // Each claim is a word (start, bytes, rows, areas_start or areas) and its value. The
  // last claim overflows to bytes inside the mapping.
  const std::vector<std::pair<int, int64_t>> claims = {
      {0, -64},
      {0, size},
      {0, INT64_MAX},
      {1, -1},
      {1, size + 1},
      {3, -8},
      {3, size - 8},
      {3, 9},
      {4, INT64_MAX},
      {4, -1},
      {4, (int64_t{1} << 61) + 1},
  };
  int64_t bytes = 5000;
  for (const auto& [word, claim] : claims) {
    const int32_t slot = Send("nowhere", ++bytes);
    SlotOf(bytes, receiver->mapping())[word] = claim;
    EXPECT_FALSE(receiver->Take(slot).ok()) << word << " " << claim;
    EXPECT_EQ(sender_->HeldBytes(), 0) << word << " " << claim;
  }
}

TEST(BatchReceiver, RefusesOtherFiles) {
  EXPECT_FALSE(BatchReceiver::Open(-1).ok());
  const int fd = memfd_create("empty", MFD_CLOEXEC);
  EXPECT_FALSE(BatchReceiver::Open(fd).ok());
  ASSERT_EQ(ftruncate(fd, kMiB), 0);
  EXPECT_FALSE(BatchReceiver::Open(fd).ok());
  close(fd);
}

}  // namespace
}  // namespace fastload
