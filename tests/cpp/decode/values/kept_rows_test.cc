#include "fastload/decode/values/kept_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace fastload {
namespace {

constexpr int64_t kRows = 100;
constexpr KeptSelections::Key kKey{.file = 0, .row_group = 1, .column = 2, .valid = true};

// Rows 0, 1, 2, ... as int32; every third row is null.
class Numbers final : public FixedReader {
 public:
  Status Skip(int64_t rows) override {
    next_ += static_cast<int32_t>(rows);
    return Status::OK();
  }
  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    for (int64_t i = 0; i < rows; ++i, ++next_) {
      std::memcpy(out + i * stride, &next_, sizeof(next_));
      if (valid != nullptr) valid[i] = static_cast<uint8_t>(next_ % 3 != 0);
    }
    return Status::OK();
  }
  Result<std::span<const uint8_t>> Dictionary() override {
    return std::span<const uint8_t>(dictionary_);
  }
  int64_t page() const override { return 7; }

 private:
  static constexpr std::array<uint8_t, 4> dictionary_{};
  int32_t next_ = 0;
};

class KeptRowsTest : public ::testing::Test {
 protected:
  std::unique_ptr<FixedReader> Record(const KeptSelections::Key& key = kKey) {
    return kept_.Record(key, kRows, sizeof(int32_t), std::make_unique<Numbers>());
  }

  std::shared_ptr<KeptMemory> memory_ = std::make_shared<KeptMemory>(int64_t{4} << 20);
  KeptSelections kept_{memory_};
};

struct Rows {
  std::vector<int32_t> values;
  std::vector<uint8_t> valid;
};

// Reads rows, each in two int32 of which the second is left alone.
Rows ReadWithGaps(FixedReader* reader, int64_t rows) {
  std::vector<int32_t> pairs(static_cast<size_t>(2 * rows), -1);
  Rows read{.values = {}, .valid = std::vector<uint8_t>(static_cast<size_t>(rows))};
  EXPECT_TRUE(reader
                  ->Read(rows, reinterpret_cast<uint8_t*>(pairs.data()),
                         2 * sizeof(int32_t), read.valid.data())
                  .ok());
  for (size_t i = 0; i < pairs.size(); i += 2) {
    read.values.push_back(pairs[i]);
    EXPECT_EQ(pairs[i + 1], -1);
  }
  return read;
}

Rows ReadPacked(FixedReader* reader, int64_t rows) {
  Rows read{.values = std::vector<int32_t>(static_cast<size_t>(rows)),
            .valid = std::vector<uint8_t>(static_cast<size_t>(rows))};
  EXPECT_TRUE(reader
                  ->Read(rows, reinterpret_cast<uint8_t*>(read.values.data()),
                         sizeof(int32_t), read.valid.data())
                  .ok());
  return read;
}

void ExpectNumbers(const Rows& rows, int32_t first) {
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const int32_t row = first + static_cast<int32_t>(i);
    EXPECT_EQ(rows.values[i], row);
    EXPECT_EQ(rows.valid[i], row % 3 != 0);
  }
}

TEST_F(KeptRowsTest, RowsAreKeptOnceAllAreRead) {
  auto recorder = Record();
  EXPECT_EQ(recorder->page(), 7);
  ExpectNumbers(ReadPacked(recorder.get(), 60), 0);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_FALSE(kept_.Has(0, 1, 2));
  ExpectNumbers(ReadWithGaps(recorder.get(), 40), 60);
  recorder.reset();
  ASSERT_NE(kept_.Find(kKey), nullptr);
  EXPECT_TRUE(kept_.Has(0, 1, 2));
  EXPECT_FALSE(kept_.Has(0, 2, 2));

  const auto reader = kept_.Read(kept_.Find(kKey));
  ExpectNumbers(ReadWithGaps(reader.get(), 10), 0);
  ASSERT_TRUE(reader->Skip(5).ok());
  ExpectNumbers(ReadPacked(reader.get(), 85), 15);
  EXPECT_EQ(KindOf(reader->Skip(1)), ErrorKind::kCorruptFile);
  EXPECT_EQ(kept_.served(), 1);
}

TEST_F(KeptRowsTest, RowsThatAreReadInPartAreKeptByALaterReader) {
  auto skips = Record();
  ASSERT_TRUE(skips->Skip(1).ok());
  ExpectNumbers(ReadPacked(skips.get(), kRows - 1), 1);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  auto ends = Record();
  ReadPacked(ends.get(), 10);
  ends.reset();
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  ReadPacked(Record().get(), kRows);
  EXPECT_NE(kept_.Find(kKey), nullptr);
}

TEST_F(KeptRowsTest, OneReaderRecordsAtATime) {
  const auto first = Record();
  const auto second = Record();
  EXPECT_TRUE(first->Dictionary()->empty());
  EXPECT_FALSE(second->Dictionary()->empty());  // not a recorder
  ReadPacked(second.get(), kRows);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  ReadPacked(first.get(), kRows);
  EXPECT_NE(kept_.Find(kKey), nullptr);
}

TEST_F(KeptRowsTest, ReadersWithAndWithoutValidityHaveRowsOfTheirOwn) {
  KeptSelections::Key without = kKey;
  without.valid = false;
  std::vector<int32_t> values(kRows);
  auto* const out = reinterpret_cast<uint8_t*>(values.data());
  const auto recorder = Record(without);
  ASSERT_TRUE(recorder->Read(kRows, out, sizeof(int32_t), nullptr).ok());
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  const auto reader = kept_.Read(kept_.Find(without));
  std::vector<uint8_t> valid(kRows);
  EXPECT_FALSE(reader->Read(1, out, sizeof(int32_t), valid.data()).ok());
  ASSERT_TRUE(reader->Read(kRows, out, sizeof(int32_t), nullptr).ok());
  std::vector<int32_t> want(kRows);
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(values, want);
  // A reader that asks for less than the key says records nothing.
  const auto other = Record();
  ASSERT_TRUE(other->Read(kRows, out, sizeof(int32_t), nullptr).ok());
  EXPECT_EQ(kept_.Find(kKey), nullptr);
}

TEST_F(KeptRowsTest, LimitsHold) {
  const auto large =
      kept_.Record(kKey, int64_t{2} << 20, sizeof(int32_t), std::make_unique<Numbers>());
  EXPECT_FALSE(large->Dictionary()->empty());
  ReadPacked(Record().get(), kRows);
  EXPECT_GT(memory_->held_bytes(), 0);
  memory_->LowerLimit(0);
  kept_.Shrink();
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(memory_->held_bytes(), 0);
  EXPECT_FALSE(Record()->Dictionary()->empty());
}

}  // namespace
}  // namespace fastload
