// How fast could a shuffled epoch over the click log be whose pages lie decompressed in
// memory?
//
//   cd csrc && g++ -O3 -std=c++20 -pthread -I. ../benchmarks/loops/shuffled_windows.cc
//       fastload/base/{forks,gather,platform,range_allocator,slabs}.cc
//       fastload/collate/shuffle.cc fastload/decode/pages/bit_unpack.cc
//       -o ../build/shuffled_windows && cd .. &&
//   build/shuffled_windows [THREADS]
//
// Printed are milliseconds for 2**21 rows of all 40 columns, and for 2**23 rows of the
// three that `bench_core.py` reads alone; the least of several runs, with and without the
// drawing of each window's order. Threads share out the windows, and do what no loader
// can leave out, with the core's loops: the order is drawn, the codes of a column are
// unpacked, the values of columns without a dictionary are copied, and each output is
// gathered and stored past the caches. Left out are the headers and the levels of pages,
// tasks, batches and Python.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
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

constexpr int64_t kRows = 1 << 19;
constexpr int64_t kChunkRows = 1 << 18;
constexpr int64_t kBlockRows = 1024;
constexpr int kRuns = 15;

// Entries of a row group's dictionary, by column; 0: the column has none.
constexpr std::array kNumbers = {2,  26,   1811, 0,   60,   1790, 0,
                                 87, 1789, 0,    118, 1742, 0,    147};
constexpr std::array kCategories = {3,     4,     8,     13,    22,    38,    63,
                                    105,   175,   291,   485,   807,   1343,  2233,
                                    3714,  6171,  10115, 16036, 23588, 32321, 41356,
                                    50570, 59443, 67920, 75842, 83430};

// The stored rows of a window's column: two column chunks.
struct Column {
  Column(int64_t entries, int64_t item) : entries(entries), item(item) {
    std::mt19937_64 random(static_cast<uint64_t>(entries));
    if (entries == 0) {
      stored = Memory<uint8_t>(kRows * item);
      for (int64_t i = 0; i < kRows * item; ++i)
        stored[i] = static_cast<uint8_t>(random());
      return;
    }
    width = static_cast<int>(std::bit_width(static_cast<uint64_t>(entries - 1)));
    stored = Memory<uint8_t>(kRows * width / 8 + fastload::kUnpackSlack);
    std::uniform_real_distribution<double> uniform;
    for (int64_t row = 0; row < kRows; ++row) {
      // Rank r of a Zipf law is uniform in log r, and frequent values come first.
      const double rank = std::exp(uniform(random) * std::log(entries + 1.0)) - 1;
      const uint64_t code = std::min<uint64_t>(static_cast<uint64_t>(rank), entries - 1);
      const int64_t bit = row * width;
      uint64_t word;
      std::memcpy(&word, stored + bit / 8, sizeof(word));
      word |= code << (bit % 8);
      std::memcpy(stored + bit / 8, &word, sizeof(word));
    }
    dictionary = Memory<uint8_t>(entries * item);
    code_bytes = 1 + 2 * entries <= 1 << 8 ? 1 : 1 + 2 * entries <= 1 << 16 ? 2 : 4;
  }

  int64_t entries;
  int64_t item;
  int width = 0;
  int64_t code_bytes = 0;  // 0: the rows are values
  uint8_t* stored;
  uint8_t* dictionary = nullptr;
};

// The memory with which a thread works.
struct Scratch {
  uint8_t* rows = Memory<uint8_t>(kRows * 8);
  uint8_t* table = Memory<uint8_t>(8 << 18);
  uint8_t* out = Memory<uint8_t>(256 << 20);
  size_t at = 0;
  std::array<uint32_t, kBlockRows> block;
  fastload::Shuffle order;

  // Returns memory that is in no cache.
  uint8_t* Output(int64_t bytes) {
    if (at + static_cast<size_t>(bytes) > 256 << 20) at = 0;
    return out + std::exchange(at, at + static_cast<size_t>(bytes));
  }
};

// Unpacks the codes of one block of rows, counted from the first dictionary.
template <typename Code>
void Unpack(const Column& column, int64_t row, Scratch* scratch, Code* to) {
  uint32_t* const block = scratch->block.data();
  fastload::UnpackGroups(column.stored + row * column.width / 8, kBlockRows / 8,
                         column.width, block);
  const auto base = static_cast<uint32_t>(1 + (row < kChunkRows ? 0 : column.entries));
  for (int64_t i = 0; i < kBlockRows; ++i) to[i] = static_cast<Code>(block[i] + base);
}

void Decode(const Column& column, Scratch* scratch) {
  if (column.entries == 0) {
    std::memcpy(scratch->rows, column.stored, static_cast<size_t>(kRows * column.item));
    return;
  }
  for (int64_t chunk = 0; chunk < 2; ++chunk) {
    std::memcpy(scratch->table + (1 + chunk * column.entries) * column.item,
                column.dictionary, static_cast<size_t>(column.entries * column.item));
  }
  for (int64_t row = 0; row < kRows; row += kBlockRows) {
    uint8_t* const to = scratch->rows + row * column.code_bytes;
    if (column.code_bytes == 1) {
      Unpack(column, row, scratch, to);
    } else if (column.code_bytes == 2) {
      Unpack(column, row, scratch, reinterpret_cast<uint16_t*>(to));
    } else {
      Unpack(column, row, scratch, reinterpret_cast<uint32_t*>(to));
    }
  }
}

// Writes the rows of a column in the given order.
void Gather(const Column& column, const uint32_t* order, Scratch* scratch) {
  Decode(column, scratch);
  uint8_t* const out = scratch->Output(kRows * column.item);
  if (column.entries == 0) {
    fastload::Gather(scratch->rows, column.item, order, kRows, out, column.item,
                     NextRead::kLate);
  } else {
    fastload::GatherCodes(scratch->rows, column.code_bytes, order, kRows, scratch->table,
                          column.item, out, NextRead::kLate);
  }
  fastload::StreamFence();
}

// Returns the least milliseconds for all windows.
double Milliseconds(int64_t windows, bool draws,
                    const std::vector<const Column*>& columns,
                    std::vector<Scratch>* scratches) {
  double least = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    std::atomic<int64_t> next = 0;
    const auto work = [&](Scratch* scratch) {
      fastload::Shuffle& order = scratch->order;
      if (order.rows.empty()) fastload::MakeShuffle(1, kRows, &order);
      for (int64_t window; (window = next++) < windows;) {
        if (draws) fastload::MakeShuffle(static_cast<uint64_t>(window), kRows, &order);
        for (const Column* column : columns) {
          Gather(*column, order.rows.data(), scratch);
        }
      }
    };
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (size_t t = 1; t < scratches->size(); ++t) {
      others.emplace_back(work, &(*scratches)[t]);
    }
    work(scratches->data());
    for (std::thread& other : others) other.join();
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - start;
    least = std::min(least, passed.count());
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<Column> columns;
  for (const int64_t entries : kNumbers) columns.emplace_back(entries, 4);
  for (const int64_t entries : kCategories) columns.emplace_back(entries, 8);
  using Columns = std::vector<const Column*>;
  Columns all;
  for (const Column& column : columns) all.push_back(&column);
  // label, numeric_03 and category_20
  const Columns three = {all[0], all[3], all[kNumbers.size() + 19]};
  std::vector<Scratch> scratches(static_cast<size_t>(threads));
  const auto print = [&](const char* name, int64_t windows, const Columns& read) {
    std::printf("%d threads, %s: %.1f ms, %.1f with the order drawn\n", threads, name,
                Milliseconds(windows, false, read, &scratches),
                Milliseconds(windows, true, read, &scratches));
  };
  print("40 columns", 4, all);
  print("3 columns", 16, three);
}
