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

// Appends the next n codes of the decoder, which reads `page`.
Status AppendCodes(HybridDecoder* decoder, int64_t n, int64_t item,
                   const std::shared_ptr<arrow::Buffer>& page,
                   const std::shared_ptr<arrow::Buffer>& dictionary, ElementRuns* runs) {
  const HybridDecoder::Position begin = decoder->position();
  ARROW_RETURN_NOT_OK(decoder->Skip(n));
  runs->AppendEncoded(n, item,
                      {.page = page,
                       .number = 3,
                       .begin = begin,
                       .end = decoder->position(),
                       .dictionary = dictionary});
  return Status::OK();
}

// Appends codes of 2 bits in runs as Parquet has them, in several calls, and leaves out
// some of the codes.
template <typename T>
void AppendEncodedRun(std::mt19937* random,
                      const std::shared_ptr<arrow::Buffer>& dictionary,
                      const std::vector<T>& entries, ElementRuns* runs,
                      std::vector<T>* expected) {
  std::vector<uint8_t> bytes;
  std::vector<T> values;
  for (auto groups = (*random)() % 100; groups > 0; --groups) {
    if ((*random)() % 2 == 0) {
      const auto value = static_cast<uint8_t>((*random)() % entries.size());
      bytes.insert(bytes.end(), {50 << 1, value});
      values.insert(values.end(), 50, entries[value]);
      continue;
    }
    bytes.push_back(50 << 1 | 1);
    for (int i = 0; i < 2 * 50; ++i) {
      bytes.push_back(static_cast<uint8_t>((*random)()));
      for (int shift = 0; shift < 8; shift += 2) {
        values.push_back(entries[bytes.back() >> shift & 3]);
      }
    }
  }
  const auto page = BufferOf(bytes);
  HybridDecoder decoder;
  decoder.Reset(page->data(), page->size(), /*bit_width=*/2);
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t at = 0; at < size;) {
    if ((*random)() % 4 == 0) {
      const auto gap = std::min<int64_t>(size - at, (*random)() % 100);
      ASSERT_TRUE(decoder.Skip(gap).ok());
      at += gap;
    }
    const auto n = std::min<int64_t>(size - at, (*random)() % 9000);
    ASSERT_TRUE(AppendCodes(&decoder, n, sizeof(T), page, dictionary, runs).ok());
    expected->insert(expected->end(), values.begin() + at, values.begin() + at + n);
    at += n;
  }
}

// Appends random runs of all kinds; `expected` receives their elements.
template <typename T>
void AppendRuns(std::mt19937* random, ElementRuns* runs, std::vector<T>* expected) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  const std::vector<T> entries = {7, T{1} << (4 * kItem), static_cast<T>(-1), 0};
  const auto dictionary = BufferOf(entries);
  const auto other = BufferOf(std::vector<T>{static_cast<T>(-5)});
  for (int run = 0; run < 40; ++run) {
    const auto n = static_cast<int64_t>((*random)() % 30);
    const auto kind = (*random)() % 5;
    if (kind == 0) {
      auto* const out = reinterpret_cast<T*>(*runs->Extend(n * kItem));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(out) % sizeof(T), 0U);
      for (int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>((*random)());
        expected->push_back(out[i]);
      }
    } else if (kind == 1) {
      AppendEncodedRun(random, dictionary, entries, runs, expected);
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
    std::vector<T> expected;
    AppendRuns(&random, &runs, &expected);
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

TEST(ElementRuns, TellsOfCodesBeyondTheDictionary) {
  // Three runs of 20,000 codes each, and the code 2 in the second run.
  std::vector<uint8_t> bytes;
  const std::vector<std::pair<uint32_t, uint8_t>> parts = {
      {30'000, 1}, {1, 2}, {29'999, 0}};
  for (const auto& [count, code] : parts) {
    uint32_t header = count << 1;
    for (; header >= 0x80; header >>= 7) {
      bytes.push_back(static_cast<uint8_t>(header | 0x80));
    }
    bytes.insert(bytes.end(), {static_cast<uint8_t>(header), code});
  }
  const auto page = BufferOf(bytes);
  const auto dictionary = BufferOf(std::vector<uint32_t>{10, 11});
  HybridDecoder decoder;
  decoder.Reset(page->data(), page->size(), /*bit_width=*/2);
  ElementRuns runs;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(AppendCodes(&decoder, 20'000, 4, page, dictionary, &runs).ok());
  }
  std::vector<uint32_t> out(30'000);
  auto* const to = reinterpret_cast<uint8_t*>(out.data());
  runs.Copy(0, 4 * 30'000, to);
  EXPECT_EQ(std::count(out.begin(), out.end(), 11U), 30'000);
  runs.Copy(4 * 30'001, 4 * 29'999, to);
  EXPECT_EQ(std::count(out.begin(), out.end() - 1, 10U), 29'999);
  EXPECT_TRUE(runs.damage().status.ok());
  runs.Copy(4 * 30'000, 4, to);
  EXPECT_EQ(KindOf(runs.damage().status), ErrorKind::kCorruptFile);
  EXPECT_EQ(runs.damage().at, 4 * 20'000);
  EXPECT_EQ(runs.damage().page, 3);
  runs.Clear();
  EXPECT_TRUE(runs.damage().status.ok());
}

TEST(ElementRuns, TellsIfCodesGoOn) {
  // 50 times the code 1, then 50 times the code 0.
  const auto page = BufferOf(std::vector<uint8_t>{100, 1, 100, 0});
  const auto dictionary = BufferOf(std::vector<uint32_t>{10, 11});
  HybridDecoder decoder;
  decoder.Reset(page->data(), page->size(), /*bit_width=*/1);
  ElementRuns runs;
  EXPECT_FALSE(runs.EndsAt(decoder.position()));
  ASSERT_TRUE(AppendCodes(&decoder, 30, 4, page, dictionary, &runs).ok());
  EXPECT_TRUE(runs.EndsAt(decoder.position()));
  ASSERT_TRUE(AppendCodes(&decoder, 10, 4, page, dictionary, &runs).ok());
  EXPECT_TRUE(runs.EndsAt(decoder.position()));
  ASSERT_TRUE(decoder.Skip(5).ok());
  EXPECT_FALSE(runs.EndsAt(decoder.position()));
  ASSERT_TRUE(AppendCodes(&decoder, 55, 4, page, dictionary, &runs).ok());
  EXPECT_TRUE(runs.EndsAt(decoder.position()));
  std::vector<uint32_t> out(95);
  runs.Copy(0, 4 * 95, reinterpret_cast<uint8_t*>(out.data()));
  EXPECT_EQ(std::count(out.begin(), out.end(), 11U), 45);
  ASSERT_TRUE(runs.Extend(4).ok());
  EXPECT_FALSE(runs.EndsAt(decoder.position()));
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
