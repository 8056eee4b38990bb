// Ends a test program that hangs, with a word on what it waited for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "faults/failing_new.h"

namespace fastload::testing {

// Ends the program unless the watchdog is destroyed within minutes. Prints what
// `describe` returns then.
class Watchdog {
 public:
  explicit Watchdog(std::function<std::string()> describe)
      : describe_(std::move(describe)), thread_([this] { Watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch() {
    const SoundNew sound;
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, std::chrono::minutes(2), [this] { return over_; })) return;
    std::fprintf(stderr, "Expected the test to go on, got no end of:\n%s\n",
                 describe_().c_str());
    std::abort();
  }

  const std::function<std::string()> describe_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace fastload::testing
