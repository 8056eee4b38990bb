#include "fastload/collate/row_addresses.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace fastload {
namespace {

std::vector<Part> PartsOf(const std::vector<int64_t>& sizes) {
  std::vector<Part> parts;
  int64_t first = 0;
  for (const int64_t rows : sizes) {
    Part part;
    part.first = first;
    part.rows = rows;
    parts.push_back(std::move(part));
    first += rows;
  }
  return parts;
}

void CheckPlaces(const std::vector<int64_t>& sizes) {
  const std::vector<Part> parts = PartsOf(sizes);
  const PartFinder finder(parts);
  uint32_t output = 0;
  for (size_t part = 0; part < sizes.size(); ++part) {
    for (uint32_t row = 0; row < sizes[part]; ++row, ++output) {
      const PartFinder::Place place = finder.Find(output);
      ASSERT_EQ(place.part, part) << output;
      ASSERT_EQ(place.row, row) << output;
    }
  }
}

TEST(PartFinder, FindsRowsOfPartsThatDiffer) {
  CheckPlaces({3, 5, 2, 9});
  CheckPlaces({3, 1, 9});
  CheckPlaces({1});
  CheckPlaces({7, 7, 7, 2});
  CheckPlaces({1, 100'000, 1, 1, 1});
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<int64_t> sizes(1 + random() % 60);
    for (int64_t& size : sizes) size = 1 + random() % (random() % 8 == 0 ? 500 : 5);
    CheckPlaces(sizes);
  }
}

}  // namespace
}  // namespace fastload
