// How long would a consumer wait for batches that are ready, beside busy threads?
//
//   g++ -O3 -std=c++20 -pthread benchmarks/loops/wake_ups.cc -o build/wake_ups &&
//   build/wake_ups [THREADS] [EPOCHS]
//
// Printed is what `bench_epochs.py` prints: for each step the longest wait of the second
// epoch and of all later epochs, the median over the later epochs of their longest waits,
// in milliseconds, and that median as a share of the step; then the wait that 99.9 % of
// the waits of later epochs do not exceed. Epochs have 200 batches in 20 windows. The
// consumer sleeps for a step, then takes a batch from a queue under a lock. The first
// batch of a window lets threads work on another window, in tasks that copy memory, for
// half of the window's steps on all threads. Windows are ahead by one, so that every
// batch is ready long before the consumer comes. A line with 0 threads has no work. What
// is left out is all that a loader does for a batch and between epochs.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWindows = 20;
constexpr int kBatches = 10;  // of a window
constexpr size_t kBytes = 8 << 20;

double Microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

// Threads that run tasks of `task_us` each, and the batches that are ready.
class Loader {
 public:
  Loader(int threads, double task_us) : task_us_(task_us) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  ~Loader() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    has_task_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Submits the tasks of a window, the last of which makes its batches ready.
  void Open(int tasks) {
    {
      const std::lock_guard lock(mutex_);
      if (threads_.empty()) ready_ += kBatches;
      for (int i = 0; !threads_.empty() && i < tasks; ++i)
        tasks_.push_back(i + 1 == tasks);
    }
    has_task_.notify_all();
  }

  void Take() {
    std::unique_lock lock(mutex_);
    has_batch_.wait(lock, [this] { return ready_ > 0; });
    --ready_;
  }

 private:
  void Work() {
    std::vector<uint8_t> from(kBytes, 1);
    std::vector<uint8_t> to(kBytes);
    std::unique_lock lock(mutex_);
    while (true) {
      has_task_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (ends_) return;
      const bool last = tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      const auto start = Clock::now();
      for (size_t at = 0; Microseconds(start) < task_us_; at = (at + 16384) % kBytes) {
        std::memcpy(to.data() + at, from.data() + at, 16384);
      }
      lock.lock();
      if (!last) continue;
      ready_ += kBatches;
      has_batch_.notify_one();
    }
  }

  const double task_us_;
  std::mutex mutex_;
  std::condition_variable has_task_;
  std::condition_variable has_batch_;
  std::deque<bool> tasks_;
  int64_t ready_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

void Print(int threads, double step_us, double task_us, int epochs) {
  const double work_us = threads * kBatches * step_us / 2;
  const int tasks = std::max(1, static_cast<int>(work_us / task_us));
  Loader loader(threads, task_us);
  loader.Open(tasks);
  std::vector<double> longest;
  std::vector<double> later;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double most = 0;
    for (int batch = 0; batch < kWindows * kBatches; ++batch) {
      const auto start = Clock::now();
      if (batch % kBatches == 0) loader.Open(tasks);
      loader.Take();
      const double wait = Microseconds(start);
      most = std::max(most, wait);
      if (epoch > 1) later.push_back(wait);
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(step_us));
    }
    longest.push_back(most);
  }
  std::ranges::sort(later);
  const double often =
      later[static_cast<size_t>(0.999 * static_cast<double>(later.size()))];
  const double second = longest[1];
  std::sort(longest.begin() + 2, longest.end());
  const double median = longest[2 + (longest.size() - 2) / 2];
  std::printf("%d threads, tasks of %3.0f us%9.2f%9.3f%9.3f%9.3f%9.2f%9.3f\n", threads,
              task_us, step_us / 1e3, second / 1e3, longest.back() / 1e3, median / 1e3,
              median / step_us, often / 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int epochs = std::max(3, argc > 2 ? std::atoi(argv[2]) : 50);
  std::printf("%27s%9s%9s%9s%9s%9s%9s\n", "", "step", "2nd", "later", "median", "share",
              "99.9 %");
  for (const double step_us : {60.0, 100.0, 200.0}) {
    Print(0, step_us, 100, epochs);
    for (const double task_us : {30.0, 100.0, 300.0}) {
      Print(threads, step_us, task_us, epochs);
    }
  }
}
