#include "fastload/base/executor.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <list>
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
    heap_.push_back(Entry{priority, next_number_++, std::move(task)});
    std::ranges::push_heap(heap_, Later{});
  }
  // Pushes all tasks, or throws and pushes none.
  void Push(std::vector<Executor::Submission> tasks) {
    const size_t needed = heap_.size() + tasks.size();
    if (needed > heap_.capacity()) heap_.reserve(std::max(needed, 2 * heap_.capacity()));
    for (Executor::Submission& task : tasks) Push(task.priority, std::move(task.task));
  }
  bool empty() const { return heap_.empty(); }
  Executor::Task Pop() {
    std::ranges::pop_heap(heap_, Later{});
    Executor::Task task = std::move(heap_.back().task);
    heap_.pop_back();
    return task;
  }

 private:
  std::vector<Entry> heap_;
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
    std::exception_ptr refused;
    try {
      Start(name, threads);
    } catch (...) {
      refused = std::current_exception();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused == nullptr) return;
    Close();  // destroying joinable threads would end the process
    std::rethrow_exception(refused);
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

  void SubmitAll(std::vector<Submission> tasks) override {
    size_t woken = tasks.size();
    {
      std::lock_guard lock(mutex_);
      woken = std::min(woken, idle_);
      queue_.Push(std::move(tasks));
    }
    for (; woken > 0; --woken) wake_.notify_one();
  }

  bool RunOne() override { return false; }

  Status fault() const override {
    if (!faulty_.load(std::memory_order_acquire)) return Status::OK();
    std::lock_guard lock(mutex_);
    return fault_;
  }

  int64_t CpuNs() const override {
    // A thread that has not ended can't end meanwhile, because it needs the lock.
    std::lock_guard lock(mutex_);
    int64_t sum = ended_cpu_ns_;
    for (const pthread_t thread : living_) sum += ThreadCpuNs(thread);
    return sum;
  }

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
  void Start(const std::string& name, int threads) {
    threads_.reserve(static_cast<size_t>(threads));
    living_.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      try {
        threads_.emplace_back([this, name] {
          NameThread(name);
          Run();
        });
      } catch (const std::system_error& refused) {
        throw std::system_error(refused.code(),
                                "Expected " + std::to_string(threads) + " threads, got " +
                                    std::to_string(threads_.size()) +
                                    "; pass fewer threads=, or raise the limit of "
                                    "processes (ulimit -u, pids.max of "
                                    "the cgroup) or of virtual memory (ulimit -v)");
      }
    }
  }

  void Run() {
    Scratch scratch;
    std::unique_lock lock(mutex_);
    living_.push_back(pthread_self());
    while (true) {
      ++idle_;
      wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      --idle_;
      if (queue_.empty()) break;
      {
        Task task = queue_.Pop();
        lock.unlock();
        Status status = CatchParquet([&] {
          task(scratch);
          return Status::OK();
        });
        if (!status.ok()) AddFault(std::move(status));
      }
      lock.lock();
    }
    std::erase(living_, pthread_self());
    ended_cpu_ns_ += ThreadCpuNs(pthread_self());
  }

  void AddFault(Status status) {
    std::lock_guard lock(mutex_);
    if (fault_.ok()) fault_ = std::move(status);
    faulty_.store(true, std::memory_order_release);
  }

  mutable std::mutex mutex_;  // guards the members to ended_cpu_ns_
  std::condition_variable wake_;
  Queue queue_;
  size_t idle_ = 0;  // threads that wait for a task
  bool closed_ = false;
  Status fault_;                     // the first
  std::vector<pthread_t> living_;    // threads that have begun and not ended
  int64_t ended_cpu_ns_ = 0;         // CPU time of the threads that have ended
  std::atomic<bool> faulty_{false};  // whether there is a fault_
  std::mutex joining_;               // guards the joining of threads_
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

  void SubmitAll(std::vector<Submission> tasks) override {
    std::lock_guard lock(mutex_);
    queue_.Push(std::move(tasks));
  }

  bool RunOne() override {
    Task task;
    // Several threads may wait, and so run tasks, at once.
    std::list<Scratch> scratch;
    {
      std::lock_guard lock(mutex_);
      if (queue_.empty()) return false;
      // A task leaves the queue only when there is memory to run it.
      if (idle_.empty()) idle_.emplace_back();
      scratch.splice(scratch.begin(), idle_, idle_.begin());
      task = queue_.Pop();
    }
    task(scratch.front());
    std::lock_guard lock(mutex_);
    idle_.splice(idle_.begin(), scratch);
    return true;
  }

  void Close() override {
    while (RunOne()) {
    }
  }

 private:
  std::mutex mutex_;  // guards the members below
  Queue queue_;
  std::list<Scratch> idle_;  // working memory of threads that run no task now
};

}  // namespace

std::unique_ptr<Executor> MakeThreadPool(const std::string& name, int threads) {
  return std::make_unique<ThreadPool>(name, threads);
}

std::unique_ptr<Executor> MakeInlineExecutor() {
  return std::make_unique<InlineExecutor>();
}

}  // namespace fastload
