#include <gtest/gtest.h>

#include <cstdint>

#include "fastload/collate/window_codes.h"

namespace fastload {
namespace {

constexpr int64_t kRows = 100'000;

TEST(CodeTable, CodesHaveTheFewestBytes) {
  EXPECT_EQ(CodeTable::CodeBytes(255, 1, 8, kRows), 1);
  EXPECT_EQ(CodeTable::CodeBytes(256, 1, 8, kRows), 2);
  EXPECT_EQ(CodeTable::CodeBytes(65'536, 1, 8, kRows), 4);
}

TEST(CodeTable, CodesAreSmallerThanElements) {
  EXPECT_EQ(CodeTable::CodeBytes(65'536, 1, 4, kRows), 0);
  EXPECT_EQ(CodeTable::CodeBytes(256, 1, 2, kRows), 0);
}

TEST(CodeTable, OtherDictionariesMayBeLarger) {
  EXPECT_EQ(CodeTable::CodeBytes(100, 2, 8, kRows), 1);
  EXPECT_EQ(CodeTable::CodeBytes(120, 2, 8, kRows), 2);
}

TEST(CodeTable, ATableWithMoreEntriesThanRowsBringsNoGain) {
  EXPECT_EQ(CodeTable::CodeBytes(1000, 1, 8, 1000), 2);
  EXPECT_EQ(CodeTable::CodeBytes(1000, 1, 8, 999), 0);
  EXPECT_EQ(CodeTable::CodeBytes(1000, 2, 8, 2250), 2);
  EXPECT_EQ(CodeTable::CodeBytes(1000, 2, 8, 2249), 0);
}

}  // namespace
}  // namespace fastload
