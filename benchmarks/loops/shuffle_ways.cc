// What do ways to put the rows of a window in a random order cost, in loops that do
// nothing else?
//
//   g++ -O3 -std=c++20 -Icsrc benchmarks/loops/shuffle_ways.cc
//       csrc/fastload/base/platform.cc -o build/shuffle_ways && build/shuffle_ways
//
// Printed are nanoseconds a value, the least of several runs over 2**19 rows, on one
// thread. Rows come in blocks of 1,024 from a small buffer, as decoded rows do, and
// outputs are stored past the caches. Start two of them for two busy cores.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "fastload/base/stream_copy.h"
#include "huge_memory.h"

namespace {

using fastload::StreamCopy;
using fastload::StreamStore;

constexpr uint32_t kRows = 1 << 19;
constexpr uint32_t kBlockRows = 1024;
constexpr uint32_t kGap = 160;
constexpr int kColumns = 6;

// A random order, at once and in the two steps of buckets of `bucket_rows`.
struct Order {
  explicit Order(uint32_t bucket_rows)
      : rows(Memory<uint32_t>(kRows)),
        slots(Memory<uint32_t>(kRows)),
        within(Memory<uint16_t>(kRows)) {
    std::mt19937 random(1);
    const uint32_t buckets = kRows / bucket_rows;
    std::vector<std::vector<uint32_t>> dealt(buckets);
    for (uint32_t row = 0; row < kRows; ++row) dealt[random() % buckets].push_back(row);
    uint32_t position = 0;
    for (uint32_t b = 0; b < buckets; ++b) {
      starts.push_back(position);
      std::vector<uint32_t> slot(dealt[b].size());
      std::iota(slot.begin(), slot.end(), 0U);
      for (uint32_t k : slot) slots[dealt[b][k]] = position + b * kGap + k;
      std::shuffle(slot.begin(), slot.end(), random);
      for (const uint32_t k : slot) {
        within[position] = static_cast<uint16_t>(k);
        rows[position++] = dealt[b][k];
      }
    }
    starts.push_back(position);
  }
  size_t slot_count() const { return kRows + starts.size() * kGap; }

  uint32_t* rows;
  uint32_t* slots;
  uint16_t* within;
  std::vector<uint32_t> starts;
};

// Returns the least nanoseconds a value of `run`, which moves kRows * columns values.
template <typename Run>
double Cost(int columns, const Run& run) {
  double least = 1e9;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> passed =
        std::chrono::steady_clock::now() - start;
    least = std::min(least, passed.count() / (double{kRows} * columns));
  }
  return least;
}

template <typename T>
T* NextOutput() {
  static uint8_t* const memory = Memory<uint8_t>((128 << 20) + kRows * sizeof(uint64_t));
  static size_t at = 0;
  at = (at + kRows * sizeof(uint64_t)) % (128 << 20);
  return reinterpret_cast<T*>(memory + at);
}

template <typename Stored, typename Code, typename Index, typename Element>
__attribute__((noinline)) void GatherTo(Stored* out, const Code* codes,
                                        const Index* index, int64_t count,
                                        const Element& element) {
  fastload::StoreStreamPast(out, count,
                            [=](int64_t i) { return element(codes[index[i]]); });
}

template <typename T>
__attribute__((noinline)) void Scatter(const T* block, const uint32_t* slots, T* to) {
  for (uint32_t i = 0; i < kBlockRows; ++i) to[slots[i]] = block[i];
}

// A column of codes of type Code that stand for values of type T, by both ways. Without
// entries, the codes are the values.
template <typename Code, typename T>
void Column(const char* name, uint32_t entries) {
  std::mt19937 random(2);
  std::vector<Code*> columns;
  for (int c = 0; c < kColumns; ++c) {
    columns.push_back(Memory<Code>(kRows));
    for (uint32_t i = 0; i < kRows; ++i) {
      columns.back()[i] = static_cast<Code>(entries > 0 ? random() % entries : random());
    }
  }
  const T* table = Memory<T>(1 << 16);
  const auto element = [=](Code code) {
    return entries > 0 ? table[code] : static_cast<T>(code);
  };
  Code* const block = Memory<Code>(kBlockRows);
  std::printf("%-34s", name);
  for (const uint32_t bucket_rows : {1U << 15, 1U << 13}) {
    const Order order(bucket_rows);
    Code* const dealt = Memory<Code>(order.slot_count());
    std::printf("%10.2f", Cost(kColumns, [&] {
                  for (const Code* column : columns) {
                    for (uint32_t row = 0; row < kRows; row += kBlockRows) {
                      std::memcpy(block, column + row, kBlockRows * sizeof(Code));
                      Scatter(block, order.slots + row, dealt);
                    }
                    T* const out = NextOutput<T>();
                    for (size_t b = 0; b + 1 < order.starts.size(); ++b) {
                      const uint32_t start = order.starts[b];
                      GatherTo(out + start, dealt + start + b * kGap,
                               order.within + start, order.starts[b + 1] - start,
                               element);
                    }
                  }
                }));
  }
  const Order order(1 << 13);
  Code* const decoded = Memory<Code>(kRows);
  std::printf("%10.2f\n", Cost(kColumns, [&] {
                for (const Code* column : columns) {
                  for (uint32_t row = 0; row < kRows; row += kBlockRows) {
                    std::memcpy(decoded + row, column + row, kBlockRows * sizeof(Code));
                  }
                  GatherTo(NextOutput<T>(), decoded, order.rows, kRows, element);
                }
              }));
}

// A stack of 26 columns of 2-byte codes that stand for 8-byte values.
void Stack() {
  constexpr int kWidth = 26;
  constexpr int64_t kRowBytes = kWidth * 8;
  struct alignas(64) Record {
    std::array<uint16_t, 32> codes;
  };
  std::mt19937 random(3);
  std::vector<uint16_t*> columns;
  std::vector<uint64_t*> tables;
  for (int c = 0; c < kWidth; ++c) {
    columns.push_back(Memory<uint16_t>(8192));
    for (int i = 0; i < 8192; ++i) {
      columns.back()[i] = static_cast<uint16_t>(random() % (c % 4 == 3 ? 20'000 : 300));
    }
    tables.push_back(Memory<uint64_t>(1 << 16) + c * 520);
  }
  const Order order(1 << 13);
  std::vector<uint32_t> position_of(kRows);
  for (uint32_t p = 0; p < kRows; ++p) position_of[order.rows[p]] = p;
  constexpr int64_t kWholeLines = 256;  // of a row
  auto* const out = Memory<uint8_t>(size_t{kRows} * kWholeLines);
  auto* const rows = Memory<uint8_t>(1024 * kRowBytes);

  constexpr int64_t kTileRows = 512;
  auto* const tile = Memory<uint64_t>(kWidth * (kTileRows + 8));
  // Writes rows of `stride` bytes one by one, each to a place that begins a multiple of
  // that behind `out`.
  const auto one_by_one = [&](const char* name, int64_t stride, const auto& place_of) {
    std::printf("%-34s%10.2f\n", name, Cost(kWidth, [&] {
                  for (uint32_t first = 0; first < kRows; first += kTileRows) {
                    for (int c = 0; c < kWidth; ++c) {
                      const uint16_t* codes = columns[c] + first % 8192;
                      for (int64_t i = 0; i < kTileRows; ++i) {
                        tile[c * (kTileRows + 8) + i] = tables[c][codes[i]];
                      }
                    }
                    for (uint32_t i = 0; i < kTileRows; ++i) {
                      auto* const row = reinterpret_cast<uint64_t*>(rows);
                      for (int c = 0; c < kWidth; ++c)
                        row[c] = tile[c * (kTileRows + 8) + i];
                      StreamCopy(out + place_of(first + i) * stride, rows, stride);
                    }
                  }
                }));
  };
  one_by_one("stack, rows one by one", kRowBytes,
             [&](uint32_t row) { return int64_t{position_of[row]}; });
  one_by_one("stack, rows of whole lines", kWholeLines,
             [&](uint32_t row) { return int64_t{position_of[row]}; });
  one_by_one("stack, rows in order", kRowBytes,
             [](uint32_t row) { return int64_t{row}; });

  auto* const dealt = Memory<Record>(order.slot_count());
  auto* const records = Memory<Record>(1024);
  std::printf("%-34s%10.2f\n", "stack, codes of a row in a record", Cost(kWidth, [&] {
                for (uint32_t first = 0; first < kRows; first += 256) {
                  for (int c = 0; c < kWidth; ++c) {
                    const uint16_t* codes = columns[c] + first % 8192;
                    for (int i = 0; i < 256; ++i) records[i].codes[c] = codes[i];
                  }
                  for (int i = 0; i < 256; ++i)
                    dealt[order.slots[first + i]] = records[i];
                }
                for (size_t b = 0; b + 1 < order.starts.size(); ++b) {
                  const Record* bucket = dealt + order.starts[b] + b * kGap;
                  for (uint32_t p = order.starts[b]; p < order.starts[b + 1]; p += 128) {
                    const int64_t n = std::min<int64_t>(128, order.starts[b + 1] - p);
                    for (int64_t i = 0; i < n; ++i)
                      records[i] = bucket[order.within[p + i]];
                    for (int c = 0; c < kWidth; ++c) {
                      for (int64_t i = 0; i < n; ++i) {
                        std::memcpy(rows + i * kRowBytes + c * 8,
                                    tables[c] + records[i].codes[c], 8);
                      }
                    }
                    StreamCopy(out + int64_t{p} * kRowBytes, rows, n * kRowBytes);
                  }
                }
              }));
}

}  // namespace

int main() {
  std::printf("%-34s%10s%10s%10s\n", "", "2**15", "2**13", "by row");
  Column<uint8_t, uint64_t>("1 byte, 8; 200 entries", 200);
  Column<uint16_t, uint64_t>("2 bytes, 8; 1,000 entries", 1000);
  Column<uint16_t, uint64_t>("2 bytes, 8; 30,000 entries", 30'000);
  Column<uint32_t, uint64_t>("4 bytes, 8; 60,000 entries", 60'000);
  Column<uint32_t, uint32_t>("values of 4 bytes", 0);
  Column<uint64_t, uint64_t>("values of 8 bytes", 0);
  Stack();
}
