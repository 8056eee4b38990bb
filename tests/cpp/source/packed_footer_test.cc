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
  }

  FileSpec Packed(std::string bytes) const {
    FileSpec packed = spec_;
    const Footer& footer = *spec_.footer;
    packed.footer = *Footer::OfPacked(KeptBytes(std::move(bytes)), spec_.bytes, path_,
                                      footer.row_group_rows(), footer.schema());
    return packed;
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("part.parquet");
  FileSpec spec_;
};

TEST_F(PackedFooterTest, ThreadsFindTheColumnChunks) {
  const FileSpec packed = Packed(*spec_.footer->Pack());
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

TEST_F(PackedFooterTest, OtherBytesAreAnError) {
  const std::string whole = *spec_.footer->Pack();
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{24}, whole.size() - 1}) {
    const FileSpec cut = Packed(whole.substr(0, bytes));
    EXPECT_FALSE(ChunkRange(cut, 0, 0).ok());
    EXPECT_FALSE(cut.footer->Totals().ok());
  }
}

TEST_F(PackedFooterTest, FewBytesAskForLittleMemory) {
  std::string claims = *spec_.footer->Pack();
  const int64_t four_gib = int64_t{1} << 32;
  // The second number of the head is the number of bytes before packing.
  std::memcpy(claims.data() + sizeof(int64_t), &four_gib, sizeof(four_gib));
  EXPECT_FALSE(Packed(claims).footer->Tail().ok());
}

}  // namespace
}  // namespace fastload
