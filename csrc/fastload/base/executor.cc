#include "fastload/base/executor.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "fastload/base/platform.h"
#include "fastload/base/scratch.h"

namespace fastload {

namespace {

struct Entry {
  int64_t priority;
  int64_t number;
  Executor::Task task;
};

struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    return std::pair(a.priority, a.number) > std::pair(b.priority, b.number);
  }
};

class Queue {
 public:
  void Push(int64_t priority, Executor::Task task) {
    queue_.push(Entry{priority, next_number_++, std::move(task)});
  }
  bool empty() const { return queue_.empty(); }
  Executor::Task Pop() {
    // top() returns a const reference to protect the heap's order; the pop below discards
    // the moved-from entry anyway.
    Executor::Task task = std::move(const_cast<Entry&>(queue_.top()).task);
    queue_.pop();
    return task;
  }

 private:
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
  int64_t next_number_ = 0;
};

// Returns the signals that the pool's threads block: Python's handlers run on the main
// thread. The signals of a fault go to the thread that is at fault; blocked, they would
// end the process before faulthandler or a sanitizer can say where.
sigset_t BlockedSignals() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigdelset(&blocked, fault);
  }
  return blocked;
}

class ThreadPool final : public Executor {
 public:
  ThreadPool(const std::string& name, int threads) {
    const sigset_t blocked = BlockedSignals();
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = Start(name, threads);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0) return;
    const std::string got = std::to_string(threads_.size());
    Close();  // destroying joinable threads would end the process
    throw std::system_error(
        error, std::generic_category(),
        "Expected " + std::to_string(threads) + " threads, got " + got);
  }

  ~ThreadPool() override { Close(); }

  int threads() const override { return static_cast<int>(threads_.size()); }
  bool has_threads() const override { return true; }

  void Submit(int64_t priority, Task task) override {
    {
      std::lock_guard lock(mutex_);
      queue_.Push(priority, std::move(task));
    }
    wake_.notify_one();
  }

  bool RunOne() override { return false; }

  void Close() override {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_all();
    // Several threads may call Close at once; each call returns when the pool's threads
    // have ended.
    std::lock_guard lock(joining_);
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  // Returns 0, or the error number with which the system refused a thread.
  int Start(const std::string& name, int threads) {
    for (int i = 0; i < threads; ++i) {
      try {
        threads_.emplace_back([this, name] {
          NameThread(name);
          Run();
        });
      } catch (const std::system_error& refused) {
        return refused.code().value();
      }
    }
    return 0;
  }

  void Run() {
    Scratch scratch;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      {
        Task task = queue_.Pop();
        lock.unlock();
        task(scratch);
      }
      lock.lock();
    }
  }

  std::mutex mutex_;  // guards queue_ and closed_
  std::condition_variable wake_;
  Queue queue_;
  bool closed_ = false;
  std::mutex joining_;  // guards the joining of threads_
  std::vector<std::thread> threads_;
};

class InlineExecutor final : public Executor {
 public:
  int threads() const override { return 1; }
  bool has_threads() const override { return false; }

  void Submit(int64_t priority, Task task) override {
    std::lock_guard lock(mutex_);
    queue_.Push(priority, std::move(task));
  }

  bool RunOne() override {
    Task task;
    // Several threads may wait, and so run tasks, at once.
    std::unique_ptr<Scratch> scratch;
    {
      std::lock_guard lock(mutex_);
      if (queue_.empty()) return false;
      task = queue_.Pop();
      if (!idle_.empty()) {
        scratch = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!scratch) scratch = std::make_unique<Scratch>();
    task(*scratch);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(scratch));
    return true;
  }

  void Close() override {
    while (RunOne()) {
    }
  }

 private:
  std::mutex mutex_;  // guards the members below
  Queue queue_;
  std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace

std::unique_ptr<Executor> MakeThreadPool(const std::string& name, int threads) {
  return std::make_unique<ThreadPool>(name, threads);
}

std::unique_ptr<Executor> MakeInlineExecutor() {
  return std::make_unique<InlineExecutor>();
}

}  // namespace fastload
