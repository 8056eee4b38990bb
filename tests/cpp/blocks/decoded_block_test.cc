#include "fastload/blocks/decoded_block.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "arrow/io/memory.h"
#include "arrow/ipc/reader.h"
#include "block_file.h"
#include "fastload/base/hash.h"
#include "temporary_directory.h"

namespace fastload {
namespace {

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DecodedBlockTest : public ::testing::Test {
 protected:
  BlockState Open(uint64_t checked = 0) const {
    return DecodedBlock::Open(path_, kName, &checked).state;
  }
  // Replaces the block by `bytes`, and expects the block to be found damaged and removed.
  void ExpectDamage(const std::string& bytes, const std::string& what) const {
    testing::WriteFile(path_, bytes);
    EXPECT_EQ(Open(), BlockState::kDamaged) << what;
    EXPECT_FALSE(std::filesystem::exists(path_)) << what;
  }

  static constexpr char kName[] = "ab/abcdef/3-digest.arrow";
  const testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("block");
};

TEST_F(DecodedBlockTest, ArrowReadsWhatWasWritten) {
  const std::vector<int64_t> batches = {1000, 1, 0, 77};
  testing::WriteBlock(path_, kName, batches);
  // From memory: a file is read on a thread of libarrow, whose synchronising TSan can't
  // see.
  const auto reader = *arrow::ipc::RecordBatchFileReader::Open(
      arrow::io::BufferReader::FromString(Bytes(path_)));
  ASSERT_EQ(reader->num_record_batches(), 4);
  int64_t first = 0;
  for (int i = 0; i < 4; ++i) {
    const auto batch = *reader->ReadRecordBatch(i);
    ASSERT_TRUE(batch->ValidateFull().ok());
    const int64_t rows = batches[static_cast<size_t>(i)];
    EXPECT_TRUE(batch->Equals(*testing::BlockRows(first, rows)));
    first += rows;
  }
}

TEST_F(DecodedBlockTest, TheChecksumOfTheWriterIsTheOneOfTheReader) {
  const uint64_t written = testing::WriteBlock(path_, kName, {100});
  uint64_t checked = 0;
  const auto opened = DecodedBlock::Open(path_, kName, &checked);
  ASSERT_EQ(opened.state, BlockState::kGood);
  EXPECT_EQ(opened.block->rows(), 100);
  EXPECT_EQ(checked, written);
  EXPECT_NE(testing::WriteBlock(path_, "another name", {100}), written);
}

TEST_F(DecodedBlockTest, ABlockWithoutRows) {
  testing::WriteBlock(path_, kName, {});
  uint64_t checked = 0;
  const auto opened = DecodedBlock::Open(path_, kName, &checked);
  ASSERT_EQ(opened.state, BlockState::kGood);
  EXPECT_EQ(opened.block->rows(), 0);
  EXPECT_EQ((*opened.block->Column(testing::NumberSpec())).size(), 0);
}

TEST_F(DecodedBlockTest, ColumnsOfAFixedWidthAreAligned) {
  testing::WriteBlock(path_, kName, {1001, 33});
  uint64_t checked = 0;
  const auto opened = DecodedBlock::Open(path_, kName, &checked);
  for (const ColumnSpec& spec : {testing::NumberSpec(), testing::VectorSpec()}) {
    const auto runs = *opened.block->Column(spec);
    // Only the first record batch is aligned behind columns of texts.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(runs[0].values) % 64, 0) << spec.name;
  }
}

TEST_F(DecodedBlockTest, EveryFlippedBitIsFound) {
  testing::WriteBlock(path_, kName, {50});
  const std::string good = Bytes(path_);
  std::mt19937 random(1);
  for (size_t at = 0; at < good.size(); at += 1 + random() % 40) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    ExpectDamage(bytes, "byte " + std::to_string(at));
  }
}

TEST_F(DecodedBlockTest, WhatIsCutOrLongerIsFound) {
  testing::WriteBlock(path_, kName, {50});
  const std::string good = Bytes(path_);
  for (size_t size :
       {size_t{0}, size_t{5}, size_t{15}, good.size() / 2, good.size() - 1}) {
    ExpectDamage(good.substr(0, size), "size " + std::to_string(size));
  }
  ExpectDamage(good + "ARROW1", "more at the end");
  ExpectDamage(good + good, "twice");
}

// Writes the checksum that the block's bytes have.
void SetChecksum(const std::string& name, std::string* bytes) {
  const size_t digits = FindChecksum(*bytes).value();
  bytes->replace(digits, kNoChecksum.size(), kNoChecksum);
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(Hash64(
                    bytes->data(), bytes->size(), Hash64(name.data(), name.size(), 0))));
  bytes->replace(digits, kNoChecksum.size(), text.data());
}

// A block may have been written by someone else, with a right checksum.
TEST_F(DecodedBlockTest, OffsetsThatDescendAreFound) {
  testing::WriteBlock(path_, kName, {50});
  const std::string good = Bytes(path_);
  std::string same = good;
  SetChecksum(kName, &same);
  ASSERT_EQ(same, good);
  for (const int32_t field : {2, 3}) {
    uint64_t checked = 0;
    const auto opened = DecodedBlock::Open(path_, kName, &checked);
    ASSERT_EQ(opened.state, BlockState::kGood);
    const ColumnSpec spec = field == 2 ? testing::TextSpec() : testing::ListSpec();
    const int64_t* const offsets = (*opened.block->Column(spec))[0].offsets.back();
    // The offsets in the middle change, the first and the last stay.
    std::string needle(reinterpret_cast<const char*>(offsets + 20), 8 * sizeof(int64_t));
    const size_t at = good.find(needle);
    ASSERT_NE(at, std::string::npos);
    std::string bytes = good;
    bytes[at + 2 * sizeof(int64_t) + 4] = 1;  // 2**32 more
    SetChecksum(kName, &bytes);
    ExpectDamage(bytes, "field " + std::to_string(field));
    testing::WriteBlock(path_, kName, {50});
  }
}

TEST_F(DecodedBlockTest, OneInThePlaceOfAnotherIsDamage) {
  testing::WriteBlock(path_, "ab/abcdef/4-digest.arrow", {50});
  EXPECT_EQ(Open(), BlockState::kDamaged);
}

TEST_F(DecodedBlockTest, WhatIsKnownIsNotReadAgain) {
  const uint64_t written = testing::WriteBlock(path_, kName, {50});
  testing::Overwrite(path_, testing::FileBytes(path_) / 2, "?");
  EXPECT_EQ(Open(written), BlockState::kGood);
  EXPECT_EQ(Open(written + 1), BlockState::kDamaged);
}

TEST_F(DecodedBlockTest, LinksAreNotFollowed) {
  testing::WriteBlock(directory_.File("other"), kName, {50});
  std::filesystem::create_symlink(directory_.File("other"), path_);
  EXPECT_EQ(Open(), BlockState::kMissing);
  EXPECT_EQ(DecodedBlock::Open(directory_.File("none"), kName, nullptr).state,
            BlockState::kMissing);
}

TEST_F(DecodedBlockTest, WhoeverMakesRoomSeesThatItIsInUse) {
  testing::WriteBlock(path_, kName, {50});
  uint64_t checked = 0;
  auto opened = DecodedBlock::Open(path_, kName, &checked);
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_NE(flock(fd, LOCK_EX | LOCK_NB), 0);
  opened.block.reset();
  EXPECT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  close(fd);
}

// A block whose checksum is right and whose offsets are not: nothing that fastload wrote.
TEST_F(DecodedBlockTest, OffsetsThatFallAreDamage) {
  const std::vector<std::vector<int64_t>> falls = {
      {0, 5, 3, 8}, {0, -1, 3, 8}, {0, INT64_MAX, 3, 8}, {0, 3, INT64_MIN, 8}};
  const auto schema = testing::BlockSchema();
  const auto good = testing::BlockRows(0, 3);
  for (const int field : {2, 3}) {
    for (const std::vector<int64_t>& offsets : falls) {
      arrow::ArrayDataVector columns = good->column_data();
      auto data = std::make_shared<arrow::ArrayData>(*good->column_data(field));
      data->buffers[1] = arrow::Buffer::FromVector(offsets);
      if (field == 2) data->buffers[2] = arrow::Buffer::FromString("12345678");
      if (field == 3) data->child_data = {testing::BlockRows(0, 8)->column_data(2)};
      columns[static_cast<size_t>(field)] = data;
      testing::WriteFile(path_, "");
      const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
      const auto writer = *DecodedWriter::Make(fd, kName, schema);
      ASSERT_TRUE(writer->Add(*arrow::RecordBatch::Make(schema, 3, columns)).ok());
      const uint64_t written = *writer->Finish();
      close(fd);
      EXPECT_EQ(Open(written), BlockState::kGood) << "this process wrote the block";
      EXPECT_EQ(Open(), BlockState::kDamaged) << field << ", " << offsets[1];
      EXPECT_FALSE(std::filesystem::exists(path_));
    }
  }
}

TEST_F(DecodedBlockTest, AColumnOfAnotherTypeIsAnError) {
  testing::WriteBlock(path_, kName, {50});
  uint64_t checked = 0;
  const auto opened = DecodedBlock::Open(path_, kName, &checked);
  ColumnSpec narrow = testing::NumberSpec();
  narrow.dtype = DType::kInt32;
  ColumnSpec longer = testing::VectorSpec();
  longer.list_size = 4;
  ColumnSpec deep = testing::ListSpec();
  deep.depth = 2;
  ColumnSpec beyond = testing::NumberSpec();
  beyond.leaves = {4};
  for (const ColumnSpec& spec : {narrow, longer, deep, beyond}) {
    EXPECT_EQ(KindOf(opened.block->Column(spec).status()), ErrorKind::kStorage);
  }
}

TEST_F(DecodedBlockTest, WhatTheSystemRefusesToWriteIsAnError) {
  testing::WriteFile(path_, "");
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const auto writer = *DecodedWriter::Make(fd, kName, testing::BlockSchema());
  const Status status = writer->Add(*testing::BlockRows(0, 10'000));
  EXPECT_EQ(KindOf(status), ErrorKind::kStorage) << status;
  close(fd);
}

}  // namespace
}  // namespace fastload
