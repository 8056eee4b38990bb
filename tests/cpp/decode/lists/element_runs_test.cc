#include "fastload/decode/lists/element_runs.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "fastload/base/stream_copy.h"
#include "gtest/gtest.h"

namespace fastload {
namespace {

template <typename T>
std::shared_ptr<arrow::Buffer> BufferOf(std::vector<T> values) {
  return arrow::Buffer::FromVector(std::move(values));
}

// Appends random runs of all kinds; `expected` receives their elements.
template <typename T>
void AppendRuns(std::mt19937* random, std::vector<std::vector<T>>* borrowed,
                ElementRuns* runs, std::vector<T>* expected) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  const std::vector<T> entries = {7, T{1} << (4 * kItem), static_cast<T>(-1), 0};
  const auto dictionary = BufferOf(entries);
  const auto other = BufferOf(std::vector<T>{static_cast<T>(-5)});
  for (int run = 0; run < 40; ++run) {
    const auto n = static_cast<int64_t>((*random)() % 30);
    const auto kind = (*random)() % 5;
    if (kind == 0) {
      std::vector<T>& values = borrowed->emplace_back(static_cast<size_t>(n));
      for (T& value : values) value = static_cast<T>((*random)());
      runs->Borrow(reinterpret_cast<const uint8_t*>(values.data()), n * kItem);
      expected->insert(expected->end(), values.begin(), values.end());
    } else if (kind == 1) {
      auto* const out = reinterpret_cast<T*>(*runs->Extend(n * kItem));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(out) % sizeof(T), 0U);
      for (int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>((*random)());
        expected->push_back(out[i]);
      }
    } else {
      const auto table = kind == 2 ? dictionary : kind == 3 ? other : nullptr;
      ElementRuns::Code* const out = *runs->ExtendCodes(n, kItem, table);
      for (int64_t i = 0; i < n; ++i) {
        const auto code = static_cast<ElementRuns::Code>((*random)());
        out[i] = kind == 2 ? code % entries.size() : kind == 3 ? 0 : code;
        expected->push_back(kind == 2   ? entries[out[i]]
                            : kind == 3 ? static_cast<T>(-5)
                                        : T{out[i]});
      }
    }
  }
}

template <typename T>
class ElementRunsTest : public ::testing::Test {};
using Items = ::testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(ElementRunsTest, Items);

TYPED_TEST(ElementRunsTest, CopiesAnyPartOfRunsOfAllKinds) {
  using T = TypeParam;
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  std::mt19937 random(5);
  ElementRuns runs;
  for (const int64_t likely : {0, 100, 100'000}) {
    runs.Clear();
    runs.Expect(likely);
    std::vector<std::vector<T>> borrowed;
    std::vector<T> expected;
    AppendRuns(&random, &borrowed, &runs, &expected);
    const auto size = static_cast<int64_t>(expected.size());
    ASSERT_EQ(runs.size(), size * kItem);
    for (int trial = 0; trial < 300; ++trial) {
      const auto begin = static_cast<int64_t>(random() % expected.size());
      const auto n = static_cast<int64_t>(random() % (expected.size() - begin + 1));
      runs.Prefetch(begin * kItem, n * kItem);
      for (const bool past : {false, true}) {
        std::vector<T> got(static_cast<size_t>(n) + 1, 42);
        auto* const out = reinterpret_cast<uint8_t*>(got.data());
        if (past) {
          runs.StreamTo(begin * kItem, n * kItem, out);
          StreamFence();
        } else {
          runs.Copy(begin * kItem, n * kItem, out);
        }
        ASSERT_EQ(got.back(), 42);
        ASSERT_TRUE(std::equal(got.begin(), got.end() - 1, expected.begin() + begin));
      }
    }
  }
}

TEST(ElementRuns, HasNoElementsAtFirst) {
  ElementRuns runs;
  EXPECT_EQ(runs.size(), 0);
  runs.Copy(0, 0, nullptr);
  runs.StreamTo(0, 0, nullptr);
  runs.Prefetch(0, 0);
}

}  // namespace
}  // namespace fastload
