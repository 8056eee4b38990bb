// What does it cost to put the columns of a stack together to rows, in loops that do
// nothing else?
//
//   g++ -O3 -std=c++20 -Icsrc benchmarks/loops/tile_stores.cc
//       csrc/fastload/collate/tile.cc csrc/fastload/base/platform.cc -o build/tile_stores
//       && build/tile_stores
//
// Printed are nanoseconds an element, the least of several runs, on one thread: into a
// block in the L1 cache, as shuffled rows are stored before they are copied to their
// places, element by element and by `Tile::Store`; and past the caches, as rows in order
// are stored, element by element and by `Tile::Stream`. One tile is stored again and
// again, to 96 MiB of memory where it goes past the caches. Start two of them for two
// busy cores.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "fastload/base/stream_copy.h"
#include "fastload/collate/tile.h"
#include "huge_memory.h"

namespace {

using fastload::Tile;

constexpr size_t kBytes = size_t{96} << 20;
constexpr int64_t kBlockBytes = 16 << 10;
constexpr int kRuns = 15;

// Returns nanoseconds an element of the fastest run of `store`, which stores `elements`.
template <typename Store>
double Least(int64_t elements, const Store& store) {
  double least = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    store();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least * 1e9 / static_cast<double>(elements);
}

template <typename T, typename StoreItem>
void EachItem(const Tile& tile, size_t columns, int64_t first, int64_t rows, uint8_t* out,
              const StoreItem& store) {
  const T* from = reinterpret_cast<const T*>(tile.Column(0)) + first;
  const auto pitch = static_cast<size_t>(tile.Column(1) - tile.Column(0)) / sizeof(T);
  for (int64_t row = 0; row < rows; ++row, ++from, out += columns * sizeof(T)) {
    for (size_t c = 0; c < columns; ++c) store(from[c * pitch], out + c * sizeof(T));
  }
}

template <typename T>
void Measure(size_t columns) {
  const int64_t item = sizeof(T);
  const int64_t width = item * static_cast<int64_t>(columns);
  auto* memory = Memory<uint8_t>(static_cast<size_t>(Tile::Bytes(item, columns)));
  std::memset(memory, 1, static_cast<size_t>(Tile::Bytes(item, columns)));
  const Tile tile(memory, item, columns);
  auto* out = Memory<uint8_t>(kBytes);
  std::memset(out, 1, kBytes);
  const int64_t tile_rows = Tile::Rows(item, columns);
  const int64_t tiles = static_cast<int64_t>(kBytes) / (tile_rows * width);
  const int64_t block_rows = std::max<int64_t>(1, kBlockBytes / width);
  const auto blocks = [&](const auto& store) {
    for (int64_t t = 0; t < tiles; ++t) {
      for (int64_t row = 0; row < tile_rows; row += block_rows) {
        store(row, std::min(block_rows, tile_rows - row), out);
      }
    }
  };
  const auto past = [&](const auto& store) {
    for (int64_t t = 0; t < tiles; ++t) store(0, tile_rows, out + t * tile_rows * width);
  };
  const int64_t elements = tiles * tile_rows * static_cast<int64_t>(columns);
  const double figures[] = {
      Least(elements,
            [&] {
              blocks([&](int64_t first, int64_t rows, uint8_t* to) {
                EachItem<T>(tile, columns, first, rows, to,
                            [](T element, uint8_t* place) {
                              std::memcpy(place, &element, sizeof(element));
                            });
              });
            }),
      Least(elements,
            [&] {
              blocks([&](int64_t first, int64_t rows, uint8_t* to) {
                tile.Store(first, rows, to, width);
              });
            }),
      Least(elements,
            [&] {
              past([&](int64_t first, int64_t rows, uint8_t* to) {
                EachItem<T>(tile, columns, first, rows, to, fastload::StreamStore<T>);
              });
            }),
      Least(elements,
            [&] {
              past([&](int64_t first, int64_t rows, uint8_t* to) {
                tile.Stream(first, rows, to, width);
              });
            }),
  };
  std::printf("%3zu columns of %zu bytes %10.2f %8.2f %10.2f %8.2f\n", columns, sizeof(T),
              figures[0], figures[1], figures[2], figures[3]);
}

}  // namespace

int main() {
  std::printf("%23s %10s %8s %10s %8s\n", "", "block", "Store", "past", "Stream");
  Measure<uint64_t>(26);
  Measure<uint64_t>(8);
  Measure<uint32_t>(13);
  Measure<uint32_t>(40);
  Measure<uint32_t>(300);
}
