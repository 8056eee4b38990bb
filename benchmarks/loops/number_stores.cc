// How fast does memory take the numbers that packed rows have for each token, in loops
// that do nothing else?
//
//   g++ -O3 -std=c++20 -pthread -Icsrc benchmarks/loops/number_stores.cc
//       csrc/fastload/base/platform.cc -o build/number_stores && build/number_stores
//
// Each thread counts up within documents of log-normal lengths of mean 600, which lie one
// after another in 96 MiB of memory: in words past the caches, whose documents begin and
// end through the caches in the middle of a line; in whole lines past the caches; and
// through the caches. Printed are GB/s of all threads together, the best of several runs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fastload/base/platform.h"
#include "fastload/base/prefetch.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace {

constexpr size_t kBytes = size_t{96} << 20;
constexpr int kRuns = 7;

// Stores whole units of `unit` bytes past the caches, the rest through the caches.
template <size_t unit>
void StorePast(int64_t count, int32_t* out) {
  int64_t i = 0;
#if defined(__SSE2__)
  constexpr int64_t kNumbers = unit / sizeof(int32_t);
  for (; i < count && reinterpret_cast<uintptr_t>(out + i) % unit != 0; ++i) {
    out[i] = static_cast<int32_t>(i);
  }
  const auto first = static_cast<int32_t>(i);
  __m128i numbers = _mm_set_epi32(first + 3, first + 2, first + 1, first);
  const __m128i more = _mm_set1_epi32(4);
  for (; i + kNumbers <= count; i += kNumbers) {
    for (int64_t word = i; word < i + kNumbers; word += 4) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + word), numbers);
      numbers = _mm_add_epi32(numbers, more);
    }
  }
#endif
  for (; i < count; ++i) out[i] = static_cast<int32_t>(i);
}

void StoreThrough(int64_t count, int32_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(i);
}

std::vector<int64_t> Lengths() {
  std::mt19937 random(1);
  std::lognormal_distribution<> length(std::log(600) - 0.5, 1);
  std::vector<int64_t> lengths;
  for (int64_t left = kBytes / sizeof(int32_t); left > 0; left -= lengths.back()) {
    const auto drawn = static_cast<int64_t>(length(random));
    lengths.push_back(std::min(left, std::clamp<int64_t>(drawn, 1, 8192)));
  }
  return lengths;
}

template <typename Store>
void Measure(const char* name, const std::vector<int64_t>& lengths,
             const std::vector<int32_t*>& memory, size_t threads, const Store& store) {
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> running;
    for (size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, out = memory[t]]() mutable {
        for (const int64_t length : lengths) {
          store(length, out);
          out += length;
        }
      });
    }
    for (std::thread& thread : running) thread.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  std::printf("%zu threads  %-24s %6.1f GB/s\n", threads, name,
              static_cast<double>(threads * kBytes) / best / 1e9);
}

}  // namespace

int main() {
  const size_t most = std::max(1U, std::thread::hardware_concurrency());
  std::vector<int32_t*> memory;
  for (size_t t = 0; t < most; ++t) {
    void* const data = std::aligned_alloc(size_t{2} << 20, kBytes);
    if (data == nullptr) std::abort();
    fastload::AdviseHugePages(data, kBytes);
    std::memset(data, 1, kBytes);
    memory.push_back(static_cast<int32_t*>(data));
  }
  const std::vector<int64_t> lengths = Lengths();
  for (size_t threads = 1; threads <= most; threads *= 2) {
    Measure("words past the caches", lengths, memory, threads, StorePast<16>);
    Measure("lines past the caches", lengths, memory, threads,
            StorePast<fastload::kCacheLine>);
    Measure("through the caches", lengths, memory, threads, StoreThrough);
  }
}
