// The program's own pthread_mutex_lock and its like come before those of the C library,
// and call these.
#include "locks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstddef>

namespace fastload::many_threads {
namespace {

struct Counter {
  std::atomic<int64_t> taken{0};
  std::atomic<int64_t> waited{0};
  std::atomic<int64_t> held_ns{0};
};

std::atomic<const std::byte*> range_begin{nullptr};
std::atomic<const std::byte*> range_end{nullptr};
Counter inside;
Counter outside;

// The mutexes that a thread holds, and since when.
struct Held {
  const void* mutex;
  int64_t since_ns;
};
constexpr int kMostHeld = 16;
thread_local Held held[kMostHeld];
thread_local int holds = 0;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

Counter& CounterOf(const void* mutex) {
  const auto* at = static_cast<const std::byte*>(mutex);
  return at >= range_begin.load(std::memory_order_relaxed) &&
                 at < range_end.load(std::memory_order_relaxed)
             ? inside
             : outside;
}

void Taken(const void* mutex, bool waited) {
  if (range_begin.load(std::memory_order_relaxed) == nullptr) return;
  Counter& counter = CounterOf(mutex);
  counter.taken.fetch_add(1, std::memory_order_relaxed);
  if (waited) counter.waited.fetch_add(1, std::memory_order_relaxed);
  if (holds < kMostHeld) held[holds++] = {mutex, NowNs()};
}

void Left(const void* mutex) {
  for (int i = holds - 1; i >= 0; --i) {
    if (held[i].mutex != mutex) continue;
    CounterOf(mutex).held_ns.fetch_add(NowNs() - held[i].since_ns,
                                       std::memory_order_relaxed);
    for (--holds; i < holds; ++i) held[i] = held[i + 1];
    return;
  }
}

LockUse Read(const Counter& counter) {
  return {counter.taken, counter.waited, counter.held_ns};
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void CountLocks(const void* begin, const void* end) {
  for (Counter* counter : {&inside, &outside}) {
    counter->taken = 0;
    counter->waited = 0;
    counter->held_ns = 0;
  }
  range_end = static_cast<const std::byte*>(end);
  range_begin = static_cast<const std::byte*>(begin);
}

LockUse LocksInside() { return Read(inside); }
LockUse LocksOutside() { return Read(outside); }

}  // namespace fastload::many_threads

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto lock =
      fastload::many_threads::Next<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  static const auto try_lock =
      fastload::many_threads::Next<int (*)(pthread_mutex_t*)>("pthread_mutex_trylock");
  const bool waits = try_lock(mutex) != 0;
  const int result = waits ? lock(mutex) : 0;
  fastload::many_threads::Taken(mutex, waits);
  return result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static const auto unlock =
      fastload::many_threads::Next<int (*)(pthread_mutex_t*)>("pthread_mutex_unlock");
  fastload::many_threads::Left(mutex);
  return unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static const auto wait =
      fastload::many_threads::Next<int (*)(pthread_cond_t*, pthread_mutex_t*)>(
          "pthread_cond_wait");
  fastload::many_threads::Left(mutex);
  const int result = wait(condition, mutex);
  fastload::many_threads::Taken(mutex, false);
  return result;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           clockid_t clock, const timespec* until) {
  static const auto wait =
      fastload::many_threads::Next<int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t,
                                           const timespec*)>("pthread_cond_clockwait");
  fastload::many_threads::Left(mutex);
  const int result = wait(condition, mutex, clock, until);
  fastload::many_threads::Taken(mutex, false);
  return result;
}

}  // extern "C"
