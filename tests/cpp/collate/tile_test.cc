#include "fastload/collate/tile.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace fastload {
namespace {

// A plain loop is the oracle of Store and Stream.
TEST(Tile, StoresRowsSideBySide) {
  std::mt19937 random(1);
  for (const int64_t item : {1, 2, 4, 8}) {
    for (const size_t columns : {1, 3, 8, 16, 26, 1030}) {
      for (const int64_t gap : {0, 1, 13}) {
        const int64_t width = item * static_cast<int64_t>(columns);
        const int64_t stride = width + gap * item;
        std::vector<uint8_t> memory(static_cast<size_t>(Tile::Bytes(item, columns)));
        for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random());
        const Tile tile(memory.data(), item, columns);
        const int64_t first = static_cast<int64_t>(random() % 100);
        const int64_t rows = Tile::Rows(item, columns) - first;
        // The output begins at a multiple of an item, not of a word.
        const auto size = static_cast<size_t>(item + rows * stride);
        std::vector<uint8_t> expected(size);
        for (int64_t row = 0; row < rows; ++row) {
          for (size_t c = 0; c < columns; ++c) {
            std::memcpy(
                expected.data() + item + row * stride + static_cast<int64_t>(c) * item,
                tile.Column(c) + (first + row) * item, static_cast<size_t>(item));
          }
        }
        std::vector<uint8_t> stored(size);
        tile.Store(first, rows, stored.data() + item, stride);
        std::vector<uint8_t> streamed(size);
        tile.Stream(first, rows, streamed.data() + item, stride);
        ASSERT_EQ(stored, expected) << "item " << item << " columns " << columns;
        ASSERT_EQ(streamed, expected) << "item " << item << " columns " << columns;
      }
    }
  }
}

}  // namespace
}  // namespace fastload
