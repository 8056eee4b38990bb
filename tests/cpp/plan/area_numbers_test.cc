#include "fastload/plan/area_numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace fastload {
namespace {

AreaNumbers Counted(size_t count) {
  AreaNumbers numbers;
  numbers.reserve(count);
  for (size_t i = 0; i < count; ++i) numbers.push_back(static_cast<int64_t>(i) * 3);
  return numbers;
}

TEST(AreaNumbersTest, KeepsNumbersBeyondTheFewThatItHasRoomFor) {
  for (size_t count = 0; count < 20; ++count) {
    SCOPED_TRACE(count);
    const AreaNumbers numbers = Counted(count);
    ASSERT_EQ(numbers.size(), count);
    const std::vector<int64_t> all(numbers.begin(), numbers.end());
    ASSERT_EQ(all.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(all[i], static_cast<int64_t>(i) * 3);
      EXPECT_EQ(numbers[i], all[i]);
    }
  }
}

TEST(AreaNumbersTest, CopiesAreEqualAndOwnTheirNumbers) {
  for (const size_t count : {size_t{3}, size_t{6}, size_t{7}, size_t{12}}) {
    SCOPED_TRACE(count);
    AreaNumbers numbers = Counted(count);
    const AreaNumbers copy = numbers;
    EXPECT_TRUE(copy == numbers);
    numbers.data()[count - 1] += 1;
    EXPECT_FALSE(copy == numbers);
    EXPECT_FALSE(Counted(count + 1) == copy);
  }
}

}  // namespace
}  // namespace fastload
