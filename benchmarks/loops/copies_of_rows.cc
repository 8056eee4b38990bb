// What do the copies of rows of a weighted epoch cost, in loops that do nothing else?
//
//   g++ -O3 -march=x86-64-v4 -std=c++20 -Icsrc benchmarks/loops/copies_of_rows.cc
//       csrc/fastload/base/platform.cc -o build/copies_of_rows && build/copies_of_rows
//
// Printed are nanoseconds a delivered row of a column, the least of several runs in
// turns over a window of 600,000 rows, on one thread. Start two of them for two busy
// cores. Every way reads blocks of rows, as a decoder does, deals the rows to the slots
// of their buckets, and gathers one bucket after the other past the caches. Rows have
// exponential weights, or half of them have weight 0.
//
//   shuffled  no copies: each row of a block is dealt to one slot
//   repeated  the copies are written to a second block by permutations, then dealt
//   by index  each copy is read at its row of the block, and dealt at once
//   by count  each row is read once, and dealt as often as it has copies
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fastload/base/stream_copy.h"
#include "huge_memory.h"

namespace {

constexpr uint32_t kRows = 600'000;
constexpr uint32_t kBlockCopies = 1024;
constexpr uint32_t kMostRows = 1280;  // of a block
constexpr uint32_t kBuckets = 128;
constexpr uint32_t kGap = 160;
constexpr uint32_t kSlack = 64;
constexpr int kColumns = 8;
constexpr int kRuns = 40;

// A window: the copies of its rows, and where they go.
struct Window {
  std::vector<uint32_t> block_rows;    // the first row of each block, and all rows
  std::vector<uint32_t> block_copies;  // likewise
  std::vector<uint8_t> counts;  // of the rows of all blocks, a row cut in two twice
  uint16_t* rows = Memory<uint16_t>(kRows + kSlack);  // of each copy, within its block
  uint32_t* slots = Memory<uint32_t>(kRows + kSlack);
  uint16_t* within = Memory<uint16_t>(kRows);
  std::array<uint32_t, kBuckets + 1> starts{};
  uint32_t stored = 0;  // rows that are decoded
};

Window MakeWindow(const std::string& kind) {
  std::mt19937 random(0);
  Window w;
  std::exponential_distribution<double> weight;
  std::uniform_real_distribution<double> fraction;
  const auto count = [&]() -> uint32_t {
    if (kind == "single") return 1;
    if (kind == "half") return 2 * (random() & 1);
    return static_cast<uint32_t>(weight(random) + fraction(random));
  };
  uint32_t copies = 0;
  uint32_t block = 0;
  uint32_t first = 0;
  const auto begin = [&] {
    w.block_rows.push_back(w.stored);
    w.block_copies.push_back(copies);
    block = copies;
    first = w.stored;
  };
  begin();
  while (copies < kRows) {
    uint32_t left = std::min(count(), kRows - copies);
    for (;;) {
      const uint32_t n = std::min(left, block + kBlockCopies - copies);
      for (uint32_t i = 0; i < n; ++i) {
        w.rows[copies + i] = static_cast<uint16_t>(w.stored - first);
      }
      w.counts.push_back(static_cast<uint8_t>(n));
      ++w.stored;
      copies += n;
      left -= n;
      const bool full = copies - block == kBlockCopies || w.stored - first == kMostRows;
      if (full && copies < kRows) begin();
      if (left == 0) break;
    }
  }
  w.block_rows.push_back(w.stored);
  w.block_copies.push_back(copies);
  std::vector<uint32_t> bucket(kRows);
  for (uint32_t& b : bucket) {
    b = random() % kBuckets;
    ++w.starts[b + 1];
  }
  std::partial_sum(w.starts.begin(), w.starts.end(), w.starts.begin());
  std::array<uint32_t, kBuckets> used{};
  for (uint32_t i = 0; i < kRows; ++i) {
    const uint32_t b = bucket[i];
    w.slots[i] = w.starts[b] + b * kGap + used[b]++;
  }
  for (uint32_t b = 0; b < kBuckets; ++b) {
    uint16_t* const own = w.within + w.starts[b];
    const uint32_t n = w.starts[b + 1] - w.starts[b];
    std::iota(own, own + n, uint16_t{0});
    std::shuffle(own, own + n, random);
  }
  return w;
}

struct Data {
  uint32_t* source;  // the pages of all columns
  uint32_t* slots;   // the rows of a column in their slots
  uint32_t* out;
};

// Deals the copies of block `b`, whose rows are in `block`.
using Deal = void (*)(const Window& w, size_t b, const uint32_t* block, uint32_t* to);

void DealRows(const Window& w, size_t b, const uint32_t* block, uint32_t* to) {
  const uint32_t first = w.block_copies[b];
  const uint32_t n = w.block_copies[b + 1] - first;
  const uint32_t* const slots = w.slots + first;
  for (uint32_t i = 0; i < n; ++i) to[slots[i]] = block[i];
}

void DealRepeated(const Window& w, size_t b, const uint32_t* block, uint32_t* to) {
  alignas(64) static std::array<uint32_t, kBlockCopies + kSlack> repeated;
  constexpr uint32_t kLanes = 16;
  const uint32_t first = w.block_copies[b];
  const uint32_t n = w.block_copies[b + 1] - first;
  const uint16_t* const rows = w.rows + first;
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const uint32_t from = rows[i];
    if (rows[i + kLanes - 1] - from >= 2 * kLanes) {
      for (uint32_t j = i; j < i + kLanes; ++j) repeated[j] = block[rows[j]];
      continue;
    }
    const __m256i places =
        _mm256_sub_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + i)),
                         _mm256_set1_epi16(static_cast<int16_t>(from)));
    _mm512_store_si512(
        repeated.data() + i,
        _mm512_permutex2var_epi32(_mm512_loadu_si512(block + from),
                                  _mm512_cvtepu16_epi32(places),
                                  _mm512_loadu_si512(block + from + kLanes)));
  }
  for (; i < n; ++i) repeated[i] = block[rows[i]];
  DealRows(w, b, repeated.data(), to);
}

void DealByIndex(const Window& w, size_t b, const uint32_t* block, uint32_t* to) {
  const uint32_t first = w.block_copies[b];
  const uint32_t n = w.block_copies[b + 1] - first;
  const uint32_t* const slots = w.slots + first;
  const uint16_t* const rows = w.rows + first;
  for (uint32_t i = 0; i < n; ++i) to[slots[i]] = block[rows[i]];
}

void DealByCount(const Window& w, size_t b, const uint32_t* block, uint32_t* to) {
  const uint32_t* slot = w.slots + w.block_copies[b];
  const uint8_t* const counts = w.counts.data() + w.block_rows[b];
  const uint32_t n = w.block_rows[b + 1] - w.block_rows[b];
  for (uint32_t row = 0; row < n; ++row) {
    for (const uint32_t* const end = slot + counts[row]; slot < end; ++slot) {
      to[*slot] = block[row];
    }
  }
}

// Returns the nanoseconds of a delivered row, of dealing and of both steps.
std::pair<double, double> Run(const Window& w, Deal deal, const Data& data) {
  alignas(64) static std::array<uint32_t, kMostRows + kSlack> block;
  using Clock = std::chrono::steady_clock;
  double dealing = 0;
  const auto began = Clock::now();
  for (int column = 0; column < kColumns; ++column) {
    const auto at = Clock::now();
    const uint32_t* const source = data.source + size_t{2} * kRows * column;
    for (size_t b = 0; b + 1 < w.block_rows.size(); ++b) {
      const uint32_t first = w.block_rows[b];
      std::memcpy(block.data(), source + first,
                  size_t{4} * (w.block_rows[b + 1] - first));
      deal(w, b, block.data(), data.slots);
    }
    dealing += std::chrono::duration<double, std::nano>(Clock::now() - at).count();
    uint32_t* const out = data.out + size_t{kRows} * column;
    for (uint32_t b = 0; b < kBuckets; ++b) {
      const uint32_t* const from = data.slots + w.starts[b] + b * kGap;
      for (uint32_t i = w.starts[b]; i < w.starts[b + 1]; ++i) {
        fastload::StreamStore(from[w.within[i]], reinterpret_cast<uint8_t*>(out + i));
      }
    }
  }
  fastload::StreamFence();
  const double both =
      std::chrono::duration<double, std::nano>(Clock::now() - began).count();
  return {dealing / kRows / kColumns, both / kRows / kColumns};
}

struct Way {
  const char* name;
  const Window* window;
  Deal deal;
};

}  // namespace

int main() {
  const Window single = MakeWindow("single");
  const Window exponential = MakeWindow("exponential");
  const Window half = MakeWindow("half");
  const Data data{Memory<uint32_t>(size_t{2} * kRows * kColumns),
                  Memory<uint32_t>(kRows + size_t{kGap} * kBuckets),
                  Memory<uint32_t>(size_t{kRows} * kColumns)};
  for (size_t i = 0; i < size_t{2} * kRows * kColumns; ++i) {
    data.source[i] = static_cast<uint32_t>(i * 2654435761U);
  }
  const std::vector<Way> ways{{"shuffled", &single, DealRows},
                              {"exponential, repeated", &exponential, DealRepeated},
                              {"exponential, by index", &exponential, DealByIndex},
                              {"exponential, by count", &exponential, DealByCount},
                              {"half, repeated", &half, DealRepeated},
                              {"half, by index", &half, DealByIndex},
                              {"half, by count", &half, DealByCount}};
  // All ways over the same window must deliver the same rows.
  std::vector<uint32_t> sums;
  std::vector<std::vector<double>> dealing(ways.size());
  std::vector<std::vector<double>> both(ways.size());
  for (int run = 0; run < kRuns; ++run) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto [deal, all] = Run(*ways[i].window, ways[i].deal, data);
      dealing[i].push_back(deal);
      both[i].push_back(all);
      uint32_t sum = 0;
      for (size_t o = 0; o < size_t{kRows} * kColumns; ++o) {
        sum = sum * 31 + data.out[o];
      }
      if (run == 0) sums.push_back(sum);
    }
  }
  for (size_t i = 2; i < ways.size(); ++i) {
    if (ways[i].window == ways[i - 1].window && sums[i] != sums[i - 1]) {
      std::printf("Expected the same rows of %s, got others\n", ways[i].name);
      return 1;
    }
  }
  std::printf("%-24s %8s %8s\n", "", "dealing", "all");
  for (size_t i = 0; i < ways.size(); ++i) {
    std::printf("%-24s %8.2f %8.2f\n", ways[i].name, std::ranges::min(dealing[i]),
                std::ranges::min(both[i]));
  }
}
