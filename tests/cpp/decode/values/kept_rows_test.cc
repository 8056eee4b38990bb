#include "fastload/decode/values/kept_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
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

// Rows "0", "1", ... whose bytes are overwritten by the next call; every third is null.
class Names final : public BytesReader {
 public:
  Status Skip(int64_t rows) override {
    next_ += rows;
    return Status::OK();
  }
  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena*) override {
    names_.clear();
    for (int64_t i = 0; i < rows; ++i, ++next_) {
      names_.push_back(next_ % 3 == 0 ? "" : std::to_string(next_));
      valid[i] = static_cast<uint8_t>(next_ % 3 != 0);
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      views[i] = {reinterpret_cast<const uint8_t*>(names_[i].data()),
                  static_cast<int64_t>(names_[i].size())};
    }
    return Status::OK();
  }
  int64_t page() const override { return 7; }

 private:
  std::vector<std::string> names_;
  int64_t next_ = 0;
};

// Reads names, lets go of the reader, and compares the names.
void ExpectNames(std::unique_ptr<BytesReader> reader, int64_t skipped, int64_t rows) {
  ByteArena arena;
  std::vector<ByteView> views(static_cast<size_t>(rows));
  std::vector<uint8_t> valid(static_cast<size_t>(rows));
  ASSERT_TRUE(reader->Skip(skipped).ok());
  const int64_t half = rows / 2;
  ASSERT_TRUE(reader->Read(half, views.data(), valid.data(), &arena).ok());
  ASSERT_TRUE(
      reader->Read(rows - half, views.data() + half, valid.data() + half, &arena).ok());
  EXPECT_FALSE(reader->Skip(kRows).ok());
  reader.reset();
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = skipped + i;
    const ByteView view = views[static_cast<size_t>(i)];
    const std::string name(reinterpret_cast<const char*>(view.data),
                           static_cast<size_t>(view.size));
    EXPECT_EQ(name, row % 3 == 0 ? "" : std::to_string(row));
    EXPECT_EQ(valid[static_cast<size_t>(i)], row % 3 != 0);
  }
}

void ReadNames(BytesReader* reader, int64_t rows) {
  std::vector<ByteView> views(static_cast<size_t>(rows));
  std::vector<uint8_t> valid(static_cast<size_t>(rows));
  ByteArena arena;
  ASSERT_TRUE(reader->Read(rows, views.data(), valid.data(), &arena).ok());
}

TEST_F(KeptRowsTest, BytesOutliveReaderAndKeeper) {
  constexpr int64_t kMost = 1 << 20;
  auto recorder = kept_.RecordBytes(kKey, kRows, kMost, std::make_unique<Names>());
  for (const int64_t rows : {1, 0, 60, 39}) ReadNames(recorder.get(), rows);
  recorder.reset();
  ASSERT_NE(kept_.Find(kKey), nullptr);
  ExpectNames(kept_.ReadBytes(kept_.Find(kKey)), 0, kRows);
  auto reader = kept_.ReadBytes(kept_.Find(kKey));
  memory_->SetLimit(0);
  kept_.Shrink();
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  ExpectNames(std::move(reader), 30, 65);
}

TEST_F(KeptRowsTest, TooManyBytesAreRefused) {
  constexpr int64_t kViews = kRows * static_cast<int64_t>(sizeof(ByteView));
  auto recorder = kept_.RecordBytes(kKey, kRows, kViews + 50, std::make_unique<Names>());
  EXPECT_FALSE(kept_.Refuses(kKey));
  ReadNames(recorder.get(), kRows);
  EXPECT_TRUE(kept_.Refuses(kKey));
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  recorder.reset();
  EXPECT_EQ(memory_->held_bytes(), 0);
}

TEST_F(KeptRowsTest, LimitsHold) {
  const auto large =
      kept_.Record(kKey, int64_t{2} << 20, sizeof(int32_t), std::make_unique<Numbers>());
  EXPECT_FALSE(large->Dictionary()->empty());
  ReadPacked(Record().get(), kRows);
  EXPECT_GT(memory_->held_bytes(), 0);
  memory_->SetLimit(0);
  kept_.Shrink();
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  EXPECT_EQ(memory_->held_bytes(), 0);
  EXPECT_FALSE(Record()->Dictionary()->empty());
}

TEST_F(KeptRowsTest, RowsInWorkKeepToALowerLimit) {
  auto recorder = Record();
  ReadPacked(recorder.get(), 60);
  memory_->SetLimit(0);
  kept_.Shrink();
  ExpectNumbers(ReadPacked(recorder.get(), 40), 60);
  EXPECT_EQ(kept_.Find(kKey), nullptr);
  recorder.reset();
  EXPECT_EQ(memory_->held_bytes(), 0);
}

}  // namespace
}  // namespace fastload
