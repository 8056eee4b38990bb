// Counting the instructions of a kernel, and the values that kernels work on.
#pragma once

#include <valgrind/callgrind.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "fastload/base/status.h"

namespace fastload::instructions {

// Enough that what happens once for a page weighs little; callgrind takes a second for
// each hundred million instructions.
inline constexpr int64_t kRows = 1 << 16;

inline void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// Counts what `run` does; it has run once before, with what it allocates at first.
template <typename Run>
void Count(const char* name, int64_t values, const Run& run) {
  run();
  CALLGRIND_START_INSTRUMENTATION;
  run();
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(name);
  std::printf("%s %lld\n", name, static_cast<long long>(values));
}

// kRows values of so many kinds.
inline std::vector<int64_t> Kinds(uint64_t kinds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> values(kRows);
  for (int64_t& value : values) {
    value = static_cast<int64_t>(random() % kinds * 0x9E3779B97F4A7C15);
  }
  return values;
}

// Each counts some.
void CountColumns();
void CountKernels();
void CountPasses();

}  // namespace fastload::instructions
