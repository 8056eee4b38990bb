#include "faults/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::atomic<bool> counting{false};
std::atomic<int64_t> made_calls{0};
std::atomic<int64_t> first_failing{kNever};
std::atomic<int64_t> end_failing{kNever};
thread_local int sound = 0;

bool Fails() {
  if (!counting.load(std::memory_order_relaxed) || sound > 0) return false;
  const int64_t call = made_calls.fetch_add(1, std::memory_order_relaxed);
  return call >= first_failing.load(std::memory_order_relaxed) &&
         call < end_failing.load(std::memory_order_relaxed);
}

void* Allocate(std::size_t bytes) {
  void* const data = Fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void* Allocate(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  void* const data =
      Fails() ? nullptr : std::aligned_alloc(step, (bytes + step - 1) / step * step);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

// The program's own versions of the replaceable functions, which its libraries use, too.
// The standard library makes the other forms of these.
void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, alignment);
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  std::free(data);
}

namespace fastload::testing {

FailingNew::FailingNew(int64_t first, Which which) {
  made_calls = 0;
  first_failing = first;
  end_failing = which == kOne ? first + 1 : kNever;
  counting = true;
}

FailingNew::~FailingNew() { counting = false; }

int64_t FailingNew::calls() { return made_calls; }

SoundNew::SoundNew() { ++sound; }

SoundNew::~SoundNew() { --sound; }

}  // namespace fastload::testing
