#include "fastload/base/forks.h"

#include <pthread.h>

#include <atomic>

namespace fastload {
namespace {

std::atomic<uint64_t> forks{0};

// The system calls the handler in each child, before fork() returns there.
const int kRegistered = pthread_atfork(nullptr, nullptr, [] { ++forks; });

}  // namespace

uint64_t ForkCount() noexcept {
  static_cast<void>(kRegistered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace fastload
