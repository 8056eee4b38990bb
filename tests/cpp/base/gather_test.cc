#include "fastload/base/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "fastload/base/memory.h"

namespace fastload {
namespace {

constexpr int64_t kWidths[] = {1,  2,  3,  4,  5,  8,  12, 16, 20,
                               24, 32, 36, 40, 48, 56, 60, 64};
constexpr int64_t kCounts[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 1000};

// Aligned memory, like scratch and batches, of exactly `bytes` bytes, so that ASan sees
// overruns.
struct Free {
  void operator()(uint8_t* data) const { std::free(data); }
};
class Bytes {
 public:
  explicit Bytes(int64_t bytes)
      : size_(static_cast<size_t>(bytes)),
        data_(static_cast<uint8_t*>(std::aligned_alloc(
            kAlignment, static_cast<size_t>(RoundUp(bytes + 1, kAlignment))))) {
    std::memset(data_.get(), 0xEE, size_);
  }
  uint8_t* data() { return data_.get(); }
  bool operator==(const Bytes& other) const {
    return std::memcmp(data_.get(), other.data_.get(), size_) == 0;
  }
  void Randomise(std::mt19937* random) {
    std::generate_n(data_.get(), size_,
                    [&] { return static_cast<uint8_t>((*random)()); });
  }

 private:
  size_t size_;
  std::unique_ptr<uint8_t, Free> data_;
};

TEST(GatherNear, EqualsAPlainLoop) {
  std::mt19937 random(2);
  for (const int64_t width : kWidths) {
    for (const uint32_t most : {1U, 2U, 3U, 40U}) {
      for (const int64_t count : kCounts) {
        std::vector<uint16_t> index(static_cast<size_t>(count));
        uint16_t row = 0;
        for (uint16_t& i : index) {
          i = row;
          row = static_cast<uint16_t>(row + random() % (most + 1));
        }
        Bytes from((row + 1) * width + kGatherNearSlack);
        from.Randomise(&random);
        for (const int64_t gap : {0, 4}) {
          const int64_t stride = width + gap;
          Bytes expected(count * stride);
          for (int64_t i = 0; i < count; ++i) {
            std::memcpy(expected.data() + i * stride,
                        from.data() + index[static_cast<size_t>(i)] * width,
                        static_cast<size_t>(width));
          }
          Bytes out(count * stride);
          GatherNear(from.data(), width, index.data(), count, out.data(), stride);
          EXPECT_TRUE(out == expected)
              << width << " " << stride << " " << most << " " << count;
        }
      }
    }
  }
}

TEST(Gather, EqualsAPlainLoop) {
  std::mt19937 random(1);
  for (const int64_t width : kWidths) {
    for (const int64_t gap : {0, 4, 8, 64, 100}) {
      for (const int64_t count : kCounts) {
        const int64_t stride = width + gap;
        const int64_t rows = count == 1000 ? 1 << 16 : 1 + random() % 100;
        Bytes from(rows * width);
        from.Randomise(&random);
        std::vector<uint16_t> index(static_cast<size_t>(count));
        for (uint16_t& i : index) i = static_cast<uint16_t>(random() % rows);
        const auto first =
            static_cast<int64_t>(random() % 20);  // within a line, or at its start
        Bytes expected((first + count) * stride + 64);
        for (int64_t i = 0; i < count; ++i) {
          std::memcpy(expected.data() + (first + i) * stride,
                      from.data() + int64_t{index[static_cast<size_t>(i)]} * width,
                      static_cast<size_t>(width));
        }
        const std::vector<uint32_t> wide(index.begin(), index.end());
        for (const NextRead next : {NextRead::kSoon, NextRead::kLate}) {
          for (const bool is_wide : {false, true}) {
            Bytes out((first + count) * stride + 64);
            uint8_t* const to = out.data() + first * stride;
            if (is_wide) {
              Gather(from.data(), width, wide.data(), count, to, stride, next);
            } else {
              Gather(from.data(), width, index.data(), count, to, stride, next);
            }
            // No byte before, between or after the rows is written.
            ASSERT_TRUE(out == expected)
                << "width " << width << " stride " << stride << " count " << count;
          }
        }
      }
    }
  }
}

// A row of a stack begins at a multiple of the item's size, not of the row's width.
TEST(Gather, WritesRowsAtAnyMultipleOfTheirItem) {
  const std::vector<uint16_t> index = {2, 0, 1, 2};
  for (const int64_t width : {4, 8, 32, 64}) {
    Bytes from(3 * width);
    for (int64_t i = 0; i < 3 * width; ++i) from.data()[i] = static_cast<uint8_t>(i);
    Bytes out(1000);
    const int64_t stride = width + 12;
    Gather(from.data(), width, index.data(), 4, out.data() + 4, stride);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(out.data()[4 + i * stride], index[static_cast<size_t>(i)] * width);
    }
  }
}

TEST(GatherCodes, EqualsAPlainLoop) {
  std::mt19937 random(3);
  for (const int64_t width : {2, 4, 8}) {
    for (int64_t code_bytes = 1; code_bytes < width; code_bytes *= 2) {
      for (const int64_t count : kCounts) {
        const uint32_t entries = 1 + random() % (code_bytes == 1 ? 256 : 1 << 16);
        Bytes table(entries * width);
        table.Randomise(&random);
        const uint32_t slots = 1 + random() % 3000;
        Bytes codes(slots * code_bytes);
        std::vector<uint32_t> code_of(slots);
        for (uint32_t slot = 0; slot < slots; ++slot) {
          code_of[slot] = random() % entries;
          std::memcpy(codes.data() + slot * code_bytes, &code_of[slot],
                      static_cast<size_t>(code_bytes));
        }
        std::vector<uint16_t> index(static_cast<size_t>(count));
        for (uint16_t& i : index) i = static_cast<uint16_t>(random() % slots);
        const auto first = static_cast<int64_t>(random() % 20);
        Bytes expected((first + count) * width);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t code = code_of[index[static_cast<size_t>(i)]];
          std::memcpy(expected.data() + (first + i) * width, table.data() + code * width,
                      static_cast<size_t>(width));
        }
        const std::vector<uint32_t> wide(index.begin(), index.end());
        for (const NextRead next : {NextRead::kSoon, NextRead::kLate}) {
          for (const bool is_wide : {false, true}) {
            Bytes out((first + count) * width);
            const auto gather = [&](const auto* at) {
              GatherCodes(codes.data(), code_bytes, at, count, table.data(), width,
                          out.data() + first * width, next);
            };
            is_wide ? gather(wide.data()) : gather(index.data());
            ASSERT_TRUE(out == expected)
                << "width " << width << " codes " << code_bytes << " count " << count;
          }
        }
      }
    }
  }
}

TEST(GatherRecordCodes, EqualsAPlainLoop) {
  std::mt19937 random(4);
  constexpr int64_t kPitch = 32;
  constexpr int64_t kAt = 5;
  constexpr int64_t kStride = 24;
  for (const int64_t width : {2, 4, 8}) {
    for (int64_t code_bytes = 1; code_bytes < width; code_bytes *= 2) {
      for (const int64_t count : kCounts) {
        const uint32_t entries = 1 + random() % (code_bytes == 1 ? 256 : 1 << 16);
        Bytes table(entries * width);
        table.Randomise(&random);
        const uint32_t slots = 1 + random() % 3000;
        Bytes records(slots * kPitch);
        records.Randomise(&random);
        Bytes out(count * kStride);
        Bytes expected(count * kStride);
        std::vector<uint32_t> index(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
          const auto slot = static_cast<uint32_t>(random() % slots);
          const uint32_t code = random() % entries;
          index[static_cast<size_t>(i)] = slot;
          // A slot that two rows take holds the last row's code.
          std::memcpy(records.data() + slot * kPitch + kAt, &code,
                      static_cast<size_t>(code_bytes));
        }
        for (int64_t i = 0; i < count; ++i) {
          uint32_t code = 0;
          std::memcpy(&code,
                      records.data() + index[static_cast<size_t>(i)] * kPitch + kAt,
                      static_cast<size_t>(code_bytes));
          std::memcpy(expected.data() + i * kStride, table.data() + code * width,
                      static_cast<size_t>(width));
        }
        GatherRecordCodes(records.data() + kAt, kPitch, code_bytes, index.data(), count,
                          table.data(), width, out.data(), kStride);
        ASSERT_TRUE(out == expected)
            << "width " << width << " codes " << code_bytes << " count " << count;
      }
    }
  }
}

TEST(Scatter, EqualsAPlainLoop) {
  std::mt19937 random(2);
  for (const int64_t width : kWidths) {
    for (const int64_t count : kCounts) {
      Bytes from(count * width);
      from.Randomise(&random);
      // A window is dealt in runs, so some slots belong to another run.
      const int64_t slots_total = count + random() % 50;
      std::vector<uint32_t> slots(static_cast<size_t>(slots_total));
      std::iota(slots.begin(), slots.end(), 0U);
      std::shuffle(slots.begin(), slots.end(), random);
      Bytes out(slots_total * width);
      Bytes expected(slots_total * width);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(expected.data() + slots[static_cast<size_t>(i)] * width,
                    from.data() + i * width, static_cast<size_t>(width));
      }
      Scatter(from.data(), width, slots.data(), count, out.data());
      ASSERT_TRUE(out == expected) << "width " << width << " count " << count;
    }
  }
}

TEST(Scatter, ReachesPastFourGigabytes) {
  // Only the pages of the first row and the last row are touched.
  constexpr int64_t kWidth = 64;
  constexpr int64_t kRows = (int64_t{5} << 30) / kWidth;
  const auto memory = MakePrivateMemory();
  uint8_t* to = memory->Map(kRows * kWidth);
  ASSERT_NE(to, nullptr);
  const uint32_t slots[] = {static_cast<uint32_t>(kRows - 1), 0};
  uint8_t rows[2 * kWidth] = {};
  rows[0] = 1;
  rows[kWidth] = 2;
  Scatter(rows, kWidth, slots, 2, to);
  EXPECT_EQ(to[(kRows - 1) * kWidth], 1);
  EXPECT_EQ(to[0], 2);
  memory->Unmap(to, kRows * kWidth);
}

}  // namespace
}  // namespace fastload
