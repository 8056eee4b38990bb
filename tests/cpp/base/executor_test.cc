#include "fastload/base/executor.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fastload/base/platform.h"
#include "fastload/base/scratch.h"

namespace fastload {
namespace {

// Submits four tasks that record their order: priorities 3, 1, 2, 1.
void SubmitFour(Executor* executor, std::string* order) {
  executor->Submit(3, [order](Scratch&) { *order += 'd'; });
  executor->Submit(1, [order](Scratch&) { *order += 'a'; });
  executor->Submit(2, [order](Scratch&) { *order += 'c'; });
  executor->Submit(1, [order](Scratch&) { *order += 'b'; });
}

TEST(InlineExecutor, RunsTheLowestPriorityFirst) {
  const auto executor = MakeInlineExecutor();
  std::string order;
  EXPECT_FALSE(executor->RunOne());
  SubmitFour(executor.get(), &order);
  EXPECT_EQ(order, "");
  EXPECT_TRUE(executor->RunOne());
  EXPECT_EQ(order, "a");
  while (executor->RunOne()) {
  }
  EXPECT_EQ(order, "abcd");
}

TEST(InlineExecutor, CloseDrains) {
  const auto executor = MakeInlineExecutor();
  std::string order;
  SubmitFour(executor.get(), &order);
  executor->Submit(
      0, [&](Scratch&) { executor->Submit(9, [&order](Scratch&) { order += 'e'; }); });
  executor->Close();
  EXPECT_EQ(order, "abcde");
  executor->Close();
  EXPECT_FALSE(executor->RunOne());
}

TEST(ThreadPool, LetsTheSignalsOfFaultsThrough) {
  const auto pool = MakeThreadPool("signals", 1);
  std::promise<sigset_t> found;
  pool->Submit(0, [&found](Scratch&) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    found.set_value(mask);
  });
  const sigset_t mask = found.get_future().get();
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    EXPECT_EQ(sigismember(&mask, fault), 0) << fault;
  }
  for (const int other : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1}) {
    EXPECT_EQ(sigismember(&mask, other), 1) << other;
  }
}

TEST(InlineExecutor, ThreadsWorkWithMemoryOfTheirOwn) {
  const auto executor = MakeInlineExecutor();
  std::atomic<int> begun{0};
  std::mutex mutex;
  std::set<uint8_t*> memory;
  for (int i = 0; i < 2; ++i) {
    executor->Submit(0, [&](Scratch& scratch) {
      uint8_t* mine = scratch.Get(Scratch::kRows, 100);
      {
        std::lock_guard lock(mutex);
        memory.insert(mine);
      }
      for (++begun; begun < 2;) std::this_thread::yield();
    });
  }
  {
    std::jthread other([&] { executor->RunOne(); });
    executor->RunOne();
  }
  EXPECT_EQ(memory.size(), 2);
}

TEST(ThreadPool, RunsTheLowestPriorityFirst) {
  const auto pool = MakeThreadPool("test", 1);
  std::promise<void> go;
  std::string order;
  pool->Submit(0, [&](Scratch&) { go.get_future().wait(); });
  SubmitFour(pool.get(), &order);
  EXPECT_FALSE(pool->RunOne());
  go.set_value();
  pool->Close();
  EXPECT_EQ(order, "abcd");
}

TEST(Executor, SubmitsSeveralInOrderOfTheirPriorities) {
  const auto inline_executor = MakeInlineExecutor();
  const auto pool = MakeThreadPool("test", 1);
  for (Executor* executor : {inline_executor.get(), pool.get()}) {
    std::promise<void> go;
    std::string order;
    if (executor->has_threads()) {
      executor->Submit(0, [&](Scratch&) { go.get_future().wait(); });
    }
    executor->Submit(1, [&](Scratch&) { order += 'a'; });
    std::vector<Executor::Submission> tasks;
    tasks.push_back({3, [&](Scratch&) { order += 'e'; }});
    tasks.push_back({1, [&](Scratch&) { order += 'b'; }});
    tasks.push_back({2, [&](Scratch&) { order += 'd'; }});
    tasks.push_back({1, [&](Scratch&) { order += 'c'; }});
    executor->SubmitAll(std::move(tasks));
    executor->SubmitAll({});
    go.set_value();
    executor->Close();
    EXPECT_EQ(order, "abcde");
  }
}

TEST(ThreadPool, SeveralTasksWakeAllThreads) {
  for (int round = 0; round < 50; ++round) {
    const auto pool = MakeThreadPool("test", 4);
    std::atomic<int> waiting{0};
    std::promise<void> all;
    std::vector<Executor::Submission> tasks;
    for (int i = 0; i < 4; ++i) {
      tasks.push_back({0, [&](Scratch&) {
                         // No task ends before all four have begun.
                         if (++waiting == 4) all.set_value();
                         while (waiting < 4) std::this_thread::yield();
                       }});
    }
    // In some rounds all threads wait already, in others some have not begun.
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (round % 5)));
    pool->SubmitAll(std::move(tasks));
    EXPECT_EQ(all.get_future().wait_for(std::chrono::seconds(60)),
              std::future_status::ready);
    pool->Close();
  }
}

TEST(ThreadPool, ATaskOfSeveralMayThrow) {
  const auto pool = MakeThreadPool("test", 2);
  std::atomic<int> ran{0};
  std::vector<Executor::Submission> tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.push_back({i, [&ran, i](Scratch&) {
                       if (i == 3) throw std::runtime_error("a task that throws");
                       ++ran;
                     }});
  }
  pool->SubmitAll(std::move(tasks));
  pool->Close();
  EXPECT_EQ(ran, 9);
  EXPECT_EQ(KindOf(pool->fault()), ErrorKind::kInternal);
}

TEST(ThreadPool, CloseDrainsWhatTasksSubmit) {
  for (const int threads : {1, 3}) {
    const auto pool = MakeThreadPool("test", threads);
    std::atomic<int> ran{0};
    for (int i = 0; i < 100; ++i) {
      pool->Submit(i, [&](Scratch&) {
        ++ran;
        pool->Submit(0, [&](Scratch&) { ++ran; });
      });
    }
    pool->Close();
    EXPECT_EQ(ran, 200);
    pool->Close();
  }
}

TEST(ThreadPool, SeveralMayCloseIt) {
  for (int round = 0; round < 50; ++round) {
    const auto pool = MakeThreadPool("test", 3);
    std::atomic<int> ran{0};
    for (int i = 0; i < 10; ++i) pool->Submit(0, [&](Scratch&) { ++ran; });
    std::vector<std::jthread> closers;
    for (int i = 0; i < 3; ++i) {
      closers.emplace_back([&] {
        pool->Close();
        EXPECT_EQ(ran, 10);
      });
    }
  }
}

TEST(ThreadPool, TasksRunOnItsNamedThreads) {
  const auto pool = MakeThreadPool("fastload-longer-than-15", 3);
  std::atomic<int> waiting{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) {
    pool->Submit(0, [&](Scratch&) {
      char name[16] = {};
      pthread_getname_np(pthread_self(), name, sizeof(name));
      {
        std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        names.insert(name);
      }
      // No task ends before all three have begun, so three threads run tasks at once.
      for (++waiting; waiting < 3;) std::this_thread::yield();
    });
  }
  pool->Close();
  EXPECT_EQ(threads.size(), 3);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  EXPECT_EQ(names, std::set<std::string>{"fastload-longer"});
}

// Uses the CPU for 10 ms of the calling thread's own time.
void Burn() {
  const int64_t start = ThreadCpuNs(pthread_self());
  while (ThreadCpuNs(pthread_self()) - start < 10'000'000) continue;
}

TEST(ThreadPool, CountsTheCpuTimeOfLivingAndOfEndedThreads) {
  const auto pool = MakeThreadPool("test", 2);
  EXPECT_LT(pool->CpuNs(), 10'000'000);
  std::promise<void> burnt;
  pool->Submit(0, [&](Scratch&) {
    Burn();
    burnt.set_value();
  });
  burnt.get_future().wait();
  const int64_t living = pool->CpuNs();
  EXPECT_GE(living, 10'000'000);
  pool->Submit(0, [](Scratch&) { Burn(); });
  pool->Close();
  EXPECT_GE(pool->CpuNs(), living + 10'000'000);
  EXPECT_EQ(pool->CpuNs(), pool->CpuNs());
}

TEST(InlineExecutor, HasNoThreadsThatUseTheCpu) {
  const auto executor = MakeInlineExecutor();
  executor->Submit(0, [](Scratch&) { Burn(); });
  EXPECT_TRUE(executor->RunOne());
  EXPECT_EQ(executor->CpuNs(), 0);
}

TEST(ThreadPool, ATaskIsDestroyedWhenItHasRun) {
  const auto pool = MakeThreadPool("test", 1);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  std::promise<bool> dead;
  pool->Submit(0, [held = std::move(held)](Scratch&) {});
  pool->Submit(1, [&](Scratch&) { dead.set_value(alive.expired()); });
  EXPECT_TRUE(dead.get_future().get());
}

}  // namespace
}  // namespace fastload
