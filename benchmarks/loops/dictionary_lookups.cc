// How fast could rows of 8 slices be beside rows of one slice, as far as dictionaries go?
//
//   cd csrc && g++ -O3 -std=c++20 -pthread -I. ../benchmarks/loops/dictionary_lookups.cc
//       fastload/base/{forks,gather,platform,range_allocator,slabs}.cc
//       fastload/collate/shuffle.cc fastload/decode/pages/bit_unpack.cc
//       -o ../build/dictionary_lookups && cd .. &&
//   build/dictionary_lookups [THREADS]
//
// Printed are nanoseconds a value on one thread of THREADS, the median of several epochs,
// and the share of one slice's rate, the median over turns. An epoch is that of a rank in
// `bench_canonical.py`: 250,000 rows of 20 columns of 8 bytes in row groups of 62,500
// rows, whose dictionaries (500 KB) and codes (2 bytes) lie in memory. One slice has
// windows of a row group: dictionaries are copied to a table, and codes are looked up as
// they are gathered. 8 slices have windows of 8,192 rows, and 6,674 at the ends of
// slices, which take turns: values are looked up in order, then gathered. "8,192 rows"
// has the same small windows one slice after the other. Codes ascend, as where no value
// of a row group comes twice (the table of the benchmark), or are drawn at random.
// Outputs are stored past the caches. Left out are headers and levels of pages, tasks,
// batches, drawing of orders, and Python.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "fastload/base/gather.h"
#include "fastload/base/stream_copy.h"
#include "fastload/collate/shuffle.h"
#include "fastload/decode/pages/bit_unpack.h"
#include "huge_memory.h"

namespace {

using fastload::NextRead;

constexpr int64_t kColumns = 20;
constexpr int64_t kGroupRows = 62'500;
constexpr int64_t kSlices = 8;
constexpr int64_t kSliceRows = 31'250;  // of 8 slices
constexpr int64_t kGroups = 4;          // of one slice
constexpr int64_t kWindowRows = 8192;
constexpr int64_t kBlockRows = 1024;
constexpr int kBits = 16;
constexpr int kTurns = 31;
constexpr size_t kOutput = 256 << 20;

// A column chunk: a dictionary of as many entries as the row group has rows, and codes.
struct Chunk {
  uint8_t* dictionary;
  uint8_t* codes;
};

struct Scratch {
  uint8_t* rows = Memory<uint8_t>(kGroupRows * 8 + kBlockRows * 8);
  uint8_t* table = Memory<uint8_t>(kGroupRows * 8);
  uint8_t* out = Memory<uint8_t>(kOutput);
  size_t at = 0;
  std::vector<uint32_t> block = std::vector<uint32_t>(kBlockRows + 64);

  // Returns memory that is in no cache.
  uint8_t* Output(int64_t bytes) {
    if (at + static_cast<size_t>(bytes) > kOutput) at = 0;
    return out + std::exchange(at, at + static_cast<size_t>(bytes));
  }
};

// A window: rows `first` to `first + rows` of a row group.
struct Window {
  int64_t group;
  int64_t first;
  int64_t rows;
};

// Calls `use(row, codes, count)` for the codes of blocks of a window.
template <typename Use>
void Unpack(const Chunk& chunk, const Window& window, Scratch* scratch, Use use) {
  const uint8_t* const codes = chunk.codes + window.first * kBits / 8;
  for (int64_t row = 0; row < window.rows; row += kBlockRows) {
    const int64_t count = std::min(kBlockRows, window.rows - row);
    fastload::UnpackGroups(codes + row * kBits / 8, (count + 7) / 8, kBits,
                           scratch->block.data());
    use(row, scratch->block.data(), count);
  }
}

// Shuffles a window's codes, which are looked up in a copy of the dictionary.
void AsCodes(const Chunk& chunk, const Window& window, const uint32_t* order,
             Scratch* scratch) {
  std::memcpy(scratch->table, chunk.dictionary, kGroupRows * 8);
  auto* const to = reinterpret_cast<uint16_t*>(scratch->rows);
  Unpack(chunk, window, scratch, [&](int64_t row, const uint32_t* codes, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[row + i] = static_cast<uint16_t>(codes[i]);
  });
  fastload::GatherCodes(scratch->rows, 2, order, window.rows, scratch->table, 8,
                        scratch->Output(window.rows * 8), NextRead::kLate);
  fastload::StreamFence();
}

// Looks a window's values up, then shuffles the values.
void AsValues(const Chunk& chunk, const Window& window, const uint32_t* order,
              Scratch* scratch) {
  const auto* const from = reinterpret_cast<const uint64_t*>(chunk.dictionary);
  auto* const to = reinterpret_cast<uint64_t*>(scratch->rows);
  Unpack(chunk, window, scratch, [&](int64_t row, const uint32_t* codes, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[row + i] = from[codes[i]];
  });
  fastload::Gather(scratch->rows, 8, order, window.rows, scratch->Output(window.rows * 8),
                   8, NextRead::kLate);
  fastload::StreamFence();
}

using Shuffler = void (*)(const Chunk&, const Window&, const uint32_t*, Scratch*);

// A way to read an epoch.
struct Way {
  const char* name;
  std::vector<Window> windows;
  Shuffler shuffle;
  std::vector<double> seconds;
};

double Seconds(const Way& way, const std::vector<Chunk>& chunks,
               std::vector<Scratch>* scratches) {
  std::vector<fastload::Shuffle> orders(way.windows.size());
  for (size_t w = 0; w < orders.size(); ++w) {
    fastload::MakeShuffle(w, static_cast<uint32_t>(way.windows[w].rows), &orders[w]);
  }
  // A task is a column of a window.
  std::atomic<int64_t> next = 0;
  const auto tasks = static_cast<int64_t>(way.windows.size()) * kColumns;
  const auto work = [&](Scratch* scratch) {
    for (int64_t task; (task = next++) < tasks;) {
      const auto w = static_cast<size_t>(task / kColumns);
      const Window& window = way.windows[w];
      const auto chunk = static_cast<size_t>(window.group * kColumns + task % kColumns);
      way.shuffle(chunks[chunk], window, orders[w].rows.data(), scratch);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (size_t t = 1; t < scratches->size(); ++t) {
    others.emplace_back(work, &(*scratches)[t]);
  }
  work(scratches->data());
  for (std::thread& other : others) other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Returns the windows of 8 slices, each of which has the first half of a row group.
std::vector<Window> SmallWindows(bool turns) {
  std::vector<Window> windows;
  for (int64_t slice = 0; slice < kSlices; ++slice) {
    for (int64_t first = 0; first < kSliceRows; first += kWindowRows) {
      windows.push_back({slice, first, std::min(kWindowRows, kSliceRows - first)});
    }
  }
  if (turns) std::ranges::stable_sort(windows, {}, &Window::first);
  return windows;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<Scratch> scratches(static_cast<size_t>(threads));
  std::mt19937_64 random(1);
  std::vector<Chunk> chunks;
  // Side by side: at multiples of a huge page, chunks would share sets of the caches.
  constexpr int64_t kCodes = kGroupRows * kBits / 8 + fastload::kUnpackSlack;
  constexpr int64_t kChunk = (kGroupRows * 8 + kCodes + 63) / 64 * 64;
  uint8_t* const memory = Memory<uint8_t>(kSlices * kColumns * kChunk);
  for (int64_t i = 0; i < kSlices * kColumns; ++i) {
    uint8_t* const at = memory + i * kChunk;
    Chunk chunk = {at, at + kGroupRows * 8};
    auto* const values = reinterpret_cast<uint64_t*>(chunk.dictionary);
    for (int64_t row = 0; row < kGroupRows; ++row) values[row] = random();
    chunks.push_back(chunk);
  }
  std::vector<Window> large;
  for (int64_t group = 0; group < kGroups; ++group)
    large.push_back({group, 0, kGroupRows});
  for (const bool ascend : {true, false}) {
    for (const Chunk& chunk : chunks) {
      auto* const codes = reinterpret_cast<uint16_t*>(chunk.codes);
      for (int64_t row = 0; row < kGroupRows; ++row) {
        codes[row] = static_cast<uint16_t>(ascend ? row : random() % kGroupRows);
      }
    }
    Way ways[] = {
        {"one slice, as codes", large, AsCodes, {}},
        {"one slice, as values", large, AsValues, {}},
        {"8,192 rows, one slice after the other", SmallWindows(false), AsValues, {}},
        {"8 slices in turns", SmallWindows(true), AsValues, {}}};
    for (int turn = 0; turn < kTurns; ++turn) {
      for (Way& way : ways) {
        Seconds(way, chunks, &scratches);
        way.seconds.push_back(Seconds(way, chunks, &scratches));
      }
    }
    std::printf("%d threads, codes %s\n", threads, ascend ? "ascend" : "at random");
    for (const Way& way : ways) {
      std::vector<double> shares;
      for (size_t t = 0; t < way.seconds.size(); ++t) {
        shares.push_back(ways[0].seconds[t] / way.seconds[t]);
      }
      const double values = kGroups * kGroupRows * kColumns;
      std::printf("  %-40s%8.2f ns%8.2f\n", way.name,
                  Median(way.seconds) * 1e9 * threads / values, Median(shares));
    }
  }
}
