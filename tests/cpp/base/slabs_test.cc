#include "fastload/base/slabs.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fastload/base/huge_pages.h"
#include "fastload/base/memory.h"

namespace fastload {
namespace {

constexpr int64_t kMebi = int64_t{1} << 20;

// Returns a piece whose bytes were written.
uint8_t* Touched(Slabs* slabs, int64_t bytes) {
  uint8_t* const data = slabs->Allocate(bytes);
  EXPECT_NE(data, nullptr);
  std::memset(data, 1, static_cast<size_t>(bytes));
  return data;
}

TEST(Slabs, PiecesAreAlignedAndApart) {
  Slabs slabs;
  std::vector<uint8_t*> pieces;
  const std::vector<int64_t> sizes = {1, 0, 100, 65, 5000, 500'000, kMebi, 3 * kMebi, 64};
  for (size_t i = 0; i < sizes.size(); ++i) {
    pieces.push_back(slabs.Allocate(sizes[i]));
    ASSERT_NE(pieces[i], nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces[i]) % kAlignment, 0);
    std::memset(pieces[i], static_cast<int>(i), static_cast<size_t>(sizes[i]));
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces[7]) % (2 * kMebi), 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int64_t b = 0; b < sizes[i]; ++b) ASSERT_EQ(pieces[i][b], i);
    slabs.GiveBack(pieces[i]);
  }
  EXPECT_EQ(slabs.stats().mapped_bytes, slabs.stats().spare_bytes);
}

TEST(Slabs, SmallPiecesShareASlab) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "small pieces come from the heap";
#endif
  Slabs slabs;
  std::vector<uint8_t*> pieces;
  for (int i = 0; i < 41; ++i) pieces.push_back(Touched(&slabs, 100'000));
  EXPECT_EQ(slabs.stats().mapped_bytes, 4 * kMebi);
  pieces.push_back(Touched(&slabs, 100'000));
  EXPECT_EQ(slabs.stats().mapped_bytes, 8 * kMebi);
  // The slab of the newest piece has room for 40 more, and a freed piece makes room too.
  slabs.GiveBack(pieces[3]);
  pieces[3] = Touched(&slabs, 90'000);
  for (int i = 0; i < 40; ++i) pieces.push_back(Touched(&slabs, 100'000));
  EXPECT_EQ(slabs.stats().mapped_bytes, 8 * kMebi);
  for (uint8_t* const piece : pieces) slabs.GiveBack(piece);
  EXPECT_EQ(slabs.stats().spare_bytes, 8 * kMebi);
}

TEST(Slabs, SpareMemoryServesPiecesOfOtherSizes) {
  Slabs slabs;
  uint8_t* const large = Touched(&slabs, 8 * kMebi);
  slabs.GiveBack(large);
  EXPECT_EQ(slabs.stats().spare_bytes, 8 * kMebi);
  uint8_t* const first = slabs.Allocate(5 * kMebi);
  uint8_t* const second = slabs.Allocate(3 * kMebi);
  EXPECT_EQ(first, large);
  EXPECT_EQ(second, large + 5 * kMebi);
  EXPECT_EQ(slabs.stats().spare_bytes, 0);
  EXPECT_EQ(slabs.stats().mapped_bytes, 8 * kMebi);
  slabs.GiveBack(first);
  slabs.GiveBack(second);
}

TEST(Slabs, SpareMemoryIsBounded) {
  Slabs slabs;
  std::vector<uint8_t*> pieces;
  for (int i = 0; i < 20; ++i) pieces.push_back(Touched(&slabs, 8 * kMebi));
  for (uint8_t* const piece : pieces) slabs.GiveBack(piece);
  EXPECT_EQ(slabs.stats().spare_bytes, Slabs::kSpareBytes);
  EXPECT_EQ(slabs.stats().mapped_bytes, Slabs::kSpareBytes);
}

// With budgets, spare memory and memory in use together stay within the budgets.
TEST(Slabs, SpareMemoryKeepsToTheBudgets) {
  Slabs slabs;
  std::vector<uint8_t*> pieces;
  for (int i = 0; i < 8; ++i) pieces.push_back(Touched(&slabs, 4 * kMebi));
  for (uint8_t* const piece : pieces) slabs.GiveBack(piece);
  EXPECT_EQ(slabs.stats().spare_bytes, 32 * kMebi);
  slabs.AddBudget(24 * kMebi);
  EXPECT_EQ(slabs.stats().spare_bytes, 24 * kMebi);
  // No spare piece is large enough, so the new mapping replaces spare mappings.
  uint8_t* const large = Touched(&slabs, 20 * kMebi);
  EXPECT_EQ(slabs.stats().spare_bytes, 4 * kMebi);
  EXPECT_EQ(slabs.stats().mapped_bytes, 24 * kMebi);
  // Memory in use may exceed the budgets; freed memory is then not kept.
  uint8_t* const other = Touched(&slabs, 6 * kMebi);
  EXPECT_EQ(slabs.stats().mapped_bytes, 26 * kMebi);
  slabs.GiveBack(other);
  EXPECT_EQ(slabs.stats().mapped_bytes, 20 * kMebi);
  // A second budget makes room; without budgets the bound is kSpareBytes.
  slabs.AddBudget(20 * kMebi);
  slabs.GiveBack(Touched(&slabs, 6 * kMebi));
  EXPECT_EQ(slabs.stats().mapped_bytes, 26 * kMebi);
  slabs.GiveBack(large);
  slabs.AddBudget(-44 * kMebi);
  EXPECT_EQ(slabs.stats().spare_bytes, 26 * kMebi);
}

TEST(Slabs, MemoryThatWasNeverTouchedIsNotKept) {
#if defined(FASTLOAD_PORTABLE)
  GTEST_SKIP() << "the system can't say which memory was touched";
#endif
  Slabs slabs;
  slabs.GiveBack(slabs.Allocate(4 * kMebi));
  EXPECT_EQ(slabs.stats().mapped_bytes, 0);
}

TEST(Slabs, GiveBackIgnoresMemoryOfOthers) {
  Slabs slabs;
  Slabs others;
  uint8_t* const data = Touched(&others, 100);
  slabs.GiveBack(data);
  slabs.GiveBack(nullptr);
  EXPECT_EQ(data[99], 1);
  EXPECT_EQ(slabs.stats().mapped_bytes, 0);
}

TEST(Slabs, AForkHasSlabsOfItsOwn) {
  Slabs* const slabs = &Slabs::OfProcess();
  EXPECT_EQ(slabs, &Slabs::OfProcess());
  uint8_t* const data = Touched(slabs, 2 * kMebi);
  const pid_t child = fork();
  if (child == 0) {
    Slabs::Free(data);  // the parent's: ignored
    Slabs* const own = &Slabs::OfProcess();
    const int64_t before = own->stats().mapped_bytes;
    uint8_t* const piece = own->Allocate(2 * kMebi);
    const bool good = own != slabs && before == 0 && piece != data && data[0] == 1;
    Slabs::Free(data);
    Slabs::Free(piece);
    _exit(good && data[0] == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(&Slabs::OfProcess(), slabs);
  Slabs::Free(data);
}

TEST(HugeAllocator, VectorsGrowInTheSlabsOfTheProcess) {
  using Numbers = std::vector<int64_t, HugeAllocator<int64_t>>;
  const int64_t before = Slabs::OfProcess().stats().mapped_bytes;
  Numbers numbers(3, 7);
  for (int64_t i = 0; i < kMebi; ++i) numbers.push_back(i);
  EXPECT_GE(Slabs::OfProcess().stats().mapped_bytes - before, 8 * kMebi);
  EXPECT_EQ(numbers[2], 7);
  EXPECT_EQ(numbers[3], 0);
  EXPECT_EQ(numbers.back(), kMebi - 1);
  numbers.resize(numbers.size() + 5);
  const Numbers moved = std::move(numbers);
  EXPECT_EQ(moved.size(), static_cast<size_t>(kMebi) + 8);
  EXPECT_EQ(moved[3 + 1000], 1000);
  Numbers none;
  EXPECT_THROW(none.reserve(SIZE_MAX / 4), std::length_error);
}

}  // namespace
}  // namespace fastload
