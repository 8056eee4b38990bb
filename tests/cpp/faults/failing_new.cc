#include "faults/failing_new.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <string_view>

namespace {

// Functions of libarrow that end the process where there is no memory: an allocation
// below one of them succeeds.
constexpr std::array<std::string_view, 3> kEndTheProcess = {
    // arrow::ipc::RecordBatchFileReader::Open makes a scope of OpenTelemetry, whose
    // functions are noexcept.
    "N5arrow3ipc21RecordBatchFileReader4Open",
    // These make a shared_ptr of a unique_ptr where nothing may throw.
    "N5arrow3ipc16GetSchemaPayload",
    "N5arrow3ipc21GetRecordBatchPayload",
};

// Returns true if the caller's stack has one of these functions.
bool EndsTheProcess() {
  std::array<void*, 64> stack;
  const int depth = backtrace(stack.data(), stack.size());
  return std::any_of(stack.begin(), stack.begin() + depth, [](void* address) {
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_sname == nullptr) return false;
    const std::string_view name = info.dli_sname;
    return std::ranges::any_of(kEndTheProcess, [&](std::string_view function) {
      return name.find(function) != std::string_view::npos;
    });
  });
}

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
         call < end_failing.load(std::memory_order_relaxed) && !EndsTheProcess();
}

void* AllocateOrNull(std::size_t bytes) noexcept {
  return Fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void* Allocate(std::size_t bytes) {
  void* const data = AllocateOrNull(bytes);
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
// The standard library makes the other forms of these, but AddressSanitizer has a form of
// its own that throws nothing.
void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateOrNull(bytes);
}
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
  end_failing = which == kOne && first < kNever ? first + 1 : kNever;
  counting = true;
}

FailingNew::~FailingNew() { counting = false; }

int64_t FailingNew::calls() { return made_calls; }

SoundNew::SoundNew() { ++sound; }

SoundNew::~SoundNew() { --sound; }

}  // namespace fastload::testing
