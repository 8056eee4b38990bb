#include "fastload/plan/row_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace fastload {
namespace {

std::vector<uint8_t> PackBits(const std::vector<bool>& kept) {
  std::vector<uint8_t> bits((kept.size() + 63) / 64 * 8, 0);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) bits[i / 8] |= static_cast<uint8_t>(1 << i % 8);
  }
  return bits;
}

std::vector<int64_t> KeptRows(const std::vector<bool>& kept) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) rows.push_back(static_cast<int64_t>(i));
  }
  return rows;
}

std::vector<bool> Scattered(int64_t rows, double share, uint32_t seed) {
  std::mt19937 random(seed);
  std::bernoulli_distribution keep(share);
  std::vector<bool> kept(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) kept[static_cast<size_t>(i)] = keep(random);
  return kept;
}

// Returns rows in runs of up to `longest` rows, with gaps of up to `gap` rows.
std::vector<bool> Clustered(int64_t rows, int longest, int gap, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<bool> kept;
  while (static_cast<int64_t>(kept.size()) < rows) {
    kept.insert(kept.end(), random() % static_cast<uint32_t>(gap + 1), false);
    kept.insert(kept.end(), random() % static_cast<uint32_t>(longest + 1), true);
  }
  kept.resize(static_cast<size_t>(rows));
  return kept;
}

// Returns the selected rows of a span with gaps.
std::vector<int64_t> Marked(const SelectedRows& rows, const SelectedRows::Span& span) {
  std::vector<uint64_t> marks(SelectedRows::kMarkWords, ~uint64_t{0});
  rows.Marks(span, marks.data());
  std::vector<int64_t> found;
  for (int64_t i = 0; i < (span.rows + 63) / 64 * 64; ++i) {
    if ((marks[static_cast<size_t>(i / 64)] >> i % 64 & 1) == 0) continue;
    found.push_back(span.start + i);
  }
  return found;
}

// Returns every row of a walk in steps of up to `most` rows.
std::vector<int64_t> Walk(SelectedRows* rows, int64_t most, bool blocks) {
  std::vector<int64_t> found;
  while (true) {
    const int64_t at = rows->row();
    const SelectedRows::Span span = rows->Next(most, blocks);
    if (span.rows == 0) return found;
    EXPECT_EQ(span.start, at);
    EXPECT_LE(span.selected, most);
    if (span.whole()) {
      for (int64_t i = 0; i < span.rows; ++i) found.push_back(span.start + i);
      continue;
    }
    EXPECT_TRUE(blocks);
    EXPECT_LE(span.rows, SelectedRows::kBlockRows);
    const std::vector<int64_t> marked = Marked(*rows, span);
    EXPECT_EQ(static_cast<int64_t>(marked.size()), span.selected);
    EXPECT_EQ(marked.front(), span.start);
    EXPECT_EQ(marked.back(), span.start + span.rows - 1);
    found.insert(found.end(), marked.begin(), marked.end());
  }
}

std::vector<std::vector<bool>> Cases() {
  std::vector<std::vector<bool>> cases;
  for (const int64_t rows : {1, 63, 64, 65, 1000, 4096, 10'007}) {
    for (const double share : {0.0, 0.002, 0.03, 0.1, 0.5, 0.97, 1.0}) {
      cases.push_back(Scattered(rows, share, static_cast<uint32_t>(rows)));
    }
    for (const int run : {2, 40, 3000}) {
      cases.push_back(Clustered(rows, run, 30, static_cast<uint32_t>(rows + run)));
    }
  }
  return cases;
}

TEST(SelectedRows, HandsOutEveryRowThatStays) {
  for (const std::vector<bool>& kept : Cases()) {
    const std::vector<uint8_t> bits = PackBits(kept);
    for (const bool blocks : {false, true}) {
      for (const int64_t most : {1, 7, 1000, 1'000'000}) {
        SelectedRows rows({bits.data(), static_cast<int64_t>(kept.size())});
        ASSERT_EQ(Walk(&rows, most, blocks), KeptRows(kept))
            << kept.size() << " " << most;
      }
    }
  }
}

TEST(SelectedRows, SkipsRowsThatStay) {
  for (const std::vector<bool>& kept : Cases()) {
    const std::vector<uint8_t> bits = PackBits(kept);
    const std::vector<int64_t> all = KeptRows(kept);
    for (const int64_t skipped : {1, 5, 64, 700}) {
      SelectedRows rows({bits.data(), static_cast<int64_t>(kept.size())});
      rows.Skip(skipped);
      const auto left = std::min<int64_t>(skipped, static_cast<int64_t>(all.size()));
      const std::vector<int64_t> expected(all.begin() + left, all.end());
      ASSERT_EQ(Walk(&rows, 500, true), expected) << kept.size() << " " << skipped;
    }
  }
}

TEST(SelectedRows, RowsGivenAsNumbersAreThoseOfBits) {
  for (const std::vector<bool>& kept : Cases()) {
    const std::vector<int64_t> numbers = KeptRows(kept);
    if (numbers.empty()) continue;
    const auto rows = static_cast<int64_t>(kept.size());
    const RowBits given{.rows = rows,
                        .numbers = numbers.data(),
                        .count = static_cast<int64_t>(numbers.size())};
    const std::vector<uint8_t> bits = PackBits(kept);
    for (const bool blocks : {false, true}) {
      for (const int64_t most : {1, 7, 1000, 1'000'000}) {
        SelectedRows walk(given);
        ASSERT_EQ(Walk(&walk, most, blocks), numbers) << rows << " " << most;
      }
    }
    for (const int64_t skipped : {1, 5, 64, 700}) {
      SelectedRows walk(given);
      walk.Skip(skipped);
      const auto left = std::min<int64_t>(skipped, given.count);
      ASSERT_EQ(Walk(&walk, 500, true),
                std::vector<int64_t>(numbers.begin() + left, numbers.end()));
      walk.Return(numbers[0]);
      ASSERT_EQ(Walk(&walk, 500, true), numbers);
    }
    SelectedRows walk(given);
    const SelectedRows::Span span = walk.Next(1'000'000, true);
    for (int64_t row = span.start + 1; row < span.start + span.rows; row += 37) {
      const SelectedRows::Span before = walk.Before(span, row);
      if (before.rows <= SelectedRows::kBlockRows) {
        EXPECT_LT(Marked(walk, before).back(), row);
      }
      EXPECT_EQ(before.selected,
                std::ranges::lower_bound(numbers, row) - numbers.begin());
    }
    for (int64_t start = 0; start < rows; start += 3) {
      for (int64_t n = 0; start + n <= rows && n < 50; n += 7) {
        ASSERT_EQ(AnyStays(given, start, n), AnyStays({bits.data(), rows}, start, n));
      }
    }
  }
}

TEST(SelectedRows, WithoutBitsAllStay) {
  SelectedRows rows({nullptr, 100});
  rows.Skip(30);
  const SelectedRows::Span span = rows.Next(50, true);
  EXPECT_EQ(span.start, 30);
  EXPECT_EQ(span.rows, 50);
  EXPECT_TRUE(span.whole());
  EXPECT_EQ(rows.Next(50, true).rows, 20);
  EXPECT_EQ(rows.Next(50, true).rows, 0);
}

TEST(SelectedRows, BlocksWhereRunsAreShort) {
  const auto first = [](const std::vector<bool>& kept) {
    const std::vector<uint8_t> bits = PackBits(kept);
    SelectedRows rows({bits.data(), static_cast<int64_t>(kept.size())});
    return rows.Next(1'000'000, true);
  };
  EXPECT_FALSE(first(Scattered(10'000, 0.2, 1)).whole());
  EXPECT_TRUE(first(Scattered(10'000, 0.002, 1)).whole());
}

TEST(SelectedRows, GoesBackToARow) {
  const std::vector<bool> kept = Scattered(3000, 0.3, 9);
  const std::vector<uint8_t> bits = PackBits(kept);
  SelectedRows rows({bits.data(), 3000});
  rows.Next(1'000'000, true);
  rows.Return(0);
  EXPECT_EQ(Walk(&rows, 1'000'000, true), KeptRows(kept));
}

TEST(SelectedRows, CutsASpan) {
  const std::vector<bool> kept = Scattered(3000, 0.3, 9);
  const std::vector<uint8_t> bits = PackBits(kept);
  for (int64_t row = 1; row < 1000; row += 37) {
    SelectedRows rows({bits.data(), 3000});
    const SelectedRows::Span span = rows.Next(1'000'000, true);
    const SelectedRows::Span before = rows.Before(span, span.start + row);
    rows.Return(span.start + row);
    std::vector<int64_t> found = Marked(rows, before);
    EXPECT_LE(before.rows, row);
    const std::vector<int64_t> rest = Walk(&rows, 1'000'000, true);
    found.insert(found.end(), rest.begin(), rest.end());
    EXPECT_EQ(found, KeptRows(kept));
  }
}

TEST(AnyStays, LooksAtEveryRow) {
  std::vector<bool> kept(300, false);
  kept[130] = true;
  const std::vector<uint8_t> bits = PackBits(kept);
  for (int64_t start = 0; start < 300; start += 3) {
    for (int64_t rows = 0; start + rows <= 300; rows += 7) {
      const bool expected = start <= 130 && 130 < start + rows;
      ASSERT_EQ(AnyStays({bits.data(), 300}, start, rows), expected);
    }
  }
}

}  // namespace
}  // namespace fastload
