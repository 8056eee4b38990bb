#include "fastload/source/packed_footer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fastload/decode/pages/chunk_open.h"
#include "fastload/source/file.h"
#include "fastload/source/footer.h"
#include "parquet/file_reader.h"
#include "row_files.h"

namespace fastload {
namespace {

class PackedFooterTest : public ::testing::Test {
 protected:
  PackedFooterTest() {
    testing::WriteRows(path_, 0, {100, 30, 50, 1});
    spec_ = testing::SpecOf(path_);
    tail_ = *SerializeTail(*parquet::ParquetFileReader::OpenFile(path_)->metadata());
  }

  FileSpec Packed(std::string bytes) const {
    FileSpec packed = spec_;
    const Footer& footer = *spec_.footer;
    packed.footer = *Footer::OfPacked(KeptBytes(std::move(bytes)), spec_.bytes, path_,
                                      footer.row_group_rows(), footer.schema());
    packed.parsed = std::make_shared<ParsedFooters>();
    return packed;
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("part.parquet");
  FileSpec spec_;
  std::string tail_;
};

TEST_F(PackedFooterTest, ThreadsFindTheColumnChunks) {
  const FileSpec packed = Packed(*spec_.footer->Pack(tail_));
  const auto leaves = static_cast<int32_t>(spec_.footer->leaves().size());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int32_t g = 0; g < spec_.row_groups(); ++g) {
        for (int32_t leaf = 0; leaf < leaves; ++leaf) {
          const ByteRange got = *ChunkRange(packed, g, leaf);
          const ByteRange expected = *ChunkRange(spec_, g, leaf);
          EXPECT_EQ(got.offset, expected.offset);
          EXPECT_EQ(got.bytes, expected.bytes);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PackedFooterTest, RowGroupsAreParsedByThemselves) {
  const FileSpec packed = Packed(*spec_.footer->Pack(tail_));
  const auto parts = *packed.footer->Parts();
  ASSERT_NE(parts, nullptr);
  ASSERT_EQ(parts->row_groups(), 4U);
  const auto whole = *spec_.footer->Metadata();
  for (int32_t g = 0; g < 4; ++g) {
    const auto one = *packed.footer->OneRowGroup(*parts, g);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->num_row_groups(), 1);
    EXPECT_TRUE(one->RowGroup(0)->Equals(*whole->RowGroup(g)));
    EXPECT_TRUE(one->schema()->Equals(*whole->schema()));
    EXPECT_EQ(one->created_by(), whole->created_by());
    EXPECT_EQ(one->key_value_metadata(), nullptr);
    for (int leaf = 0; leaf < one->num_columns(); ++leaf) {
      const auto own = one->RowGroup(0)->ColumnChunk(leaf)->statistics();
      const auto other = whole->RowGroup(g)->ColumnChunk(leaf)->statistics();
      ASSERT_EQ(own == nullptr, other == nullptr);
      EXPECT_TRUE(own == nullptr || own->Equals(*other));
    }
  }
  EXPECT_EQ(*packed.footer->OneRowGroup(*parts, 4), nullptr);
}

TEST_F(PackedFooterTest, WhatIsNoFooterHasNoParts) {
  const std::string thrift = tail_.substr(0, tail_.size() - Footer::kTrailerBytes);
  ASSERT_NE(FooterParts::Of(thrift), nullptr);
  for (size_t bytes = 0; bytes < thrift.size(); ++bytes) {
    EXPECT_EQ(FooterParts::Of(thrift.substr(0, bytes)), nullptr) << bytes;
  }
  EXPECT_EQ(FooterParts::Of(std::string(100, '\x1c')), nullptr);
  // Whatever one byte becomes, parts lie inside the bytes.
  for (size_t at = 0; at < thrift.size(); ++at) {
    std::string damaged = thrift;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const auto parts = FooterParts::Of(damaged);
    if (parts == nullptr) continue;
    for (size_t g = 0; g < parts->row_groups(); ++g) {
      EXPECT_LE(parts->Only(g).size(), thrift.size() + 16);
    }
  }
}

TEST_F(PackedFooterTest, OtherBytesAreAnError) {
  const std::string whole = *spec_.footer->Pack(tail_);
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{24}, whole.size() - 1}) {
    const FileSpec cut = Packed(whole.substr(0, bytes));
    EXPECT_FALSE(ChunkRange(cut, 0, 0).ok());
    EXPECT_FALSE(cut.footer->PackedTotals().ok());
  }
}

TEST_F(PackedFooterTest, FewBytesAskForLittleMemory) {
  std::string claims = *spec_.footer->Pack(tail_);
  const int64_t four_gib = int64_t{1} << 32;
  // The second number of the head is the number of bytes before packing.
  std::memcpy(claims.data() + sizeof(int64_t), &four_gib, sizeof(four_gib));
  EXPECT_FALSE(Packed(claims).footer->Serialize().ok());
}

}  // namespace
}  // namespace fastload
