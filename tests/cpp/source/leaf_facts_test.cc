#include "fastload/source/leaf_facts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fastload/source/footer.h"
#include "row_files.h"

namespace fastload {
namespace {

FooterChunk ChunkOf(std::mt19937_64* random, int bits) {
  const auto number = [&] { return static_cast<int64_t>((*random)() >> (64 - bits)); };
  return {.offset = number(),
          .compressed_bytes = number(),
          .uncompressed_bytes = number(),
          .values = number(),
          .codec = bits % 2 == 0 ? parquet::Compression::ZSTD : parquet::Compression::LZ4,
          .nulls = number() - 1,
          .value_bytes = number() - 1,
          .offset_index = {number(), number()},
          .column_index = {number(), number()},
          .bloom_filter = {number(), number() - 1},
          .marks_no_compression = number() % 2 == 0,
          .leaves_out_header = number() % 2 == 0};
}

std::unique_ptr<const LeafFacts> FactsOf(std::string bytes, size_t leaves,
                                         size_t row_groups) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return std::make_unique<const LeafFacts>(*owner, leaves, row_groups, owner);
}

TEST(LeafFactsTest, NumbersOfEachWidthAreFound) {
  std::mt19937_64 random(7);
  for (const size_t row_groups : {1, 2, 300}) {
    std::vector<std::vector<FooterChunk>> chunks(65);
    for (size_t leaf = 1; leaf < chunks.size(); ++leaf) {
      for (size_t g = 0; g < row_groups; ++g) {
        chunks[leaf].push_back(ChunkOf(&random, static_cast<int>(leaf)));
      }
    }
    const auto facts = FactsOf(LeafFacts::Pack(chunks), chunks.size(), row_groups);
    for (size_t g = 0; g < row_groups; ++g) {
      EXPECT_FALSE(facts->Chunk(0, g).has_value());  // a leaf without chunks
      for (size_t leaf = 1; leaf < chunks.size(); ++leaf) {
        const auto found = facts->Chunk(leaf, g);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(*found, chunks[leaf][g]) << leaf;
      }
    }
    EXPECT_FALSE(facts->Chunk(chunks.size(), 0).has_value());
    EXPECT_FALSE(facts->Chunk(1, row_groups).has_value());
  }
}

TEST(LeafFactsTest, EqualNumbersTakeNoBytes) {
  const std::vector<FooterChunk> chunks(1000, FooterChunk{.offset = 4, .values = 10});
  EXPECT_LT(LeafFacts::Pack({chunks}).size(), 40U);
}

TEST(LeafFactsTest, OtherBytesAreNoFacts) {
  std::mt19937_64 random(7);
  const std::vector<FooterChunk> chunks = {ChunkOf(&random, 20), ChunkOf(&random, 40)};
  const std::string whole = LeafFacts::Pack({chunks, chunks});
  EXPECT_TRUE(FactsOf(whole, 2, 2)->Chunk(1, 1).has_value());
  EXPECT_FALSE(FactsOf(whole, 2, 1)->Chunk(1, 0).has_value());
  EXPECT_FALSE(FactsOf(whole, 2, 3)->Chunk(1, 0).has_value());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(FactsOf(whole.substr(0, bytes), 2, 2)->Chunk(1, 0).has_value()) << bytes;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x55, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      const auto facts = FactsOf(std::move(damaged), 2, 2);
      for (const size_t leaf : {0, 1}) {
        for (const size_t g : {0, 1}) {
          (void)facts->Chunk(leaf, g);  // inside the bytes, whatever one byte becomes
        }
      }
    }
  }
}

TEST(LeafFactsTest, ThreadsReadAFooterAtTheSameTime) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("part.parquet");
  testing::WriteRows(path, 0, {100, 30, 50, 1});
  const FileSpec spec = testing::SpecOf(path);
  const auto leaves = static_cast<int32_t>(spec.footer->leaves().size());
  std::vector<std::vector<FooterChunk>> expected;
  for (int32_t leaf = 0; leaf < leaves; ++leaf) {
    expected.push_back(*spec.footer->ParseChunks(leaf));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < leaves; ++i) {
        const int32_t leaf = (i + t) % leaves;
        for (int32_t g = 0; g < spec.row_groups(); ++g) {
          const auto got = spec.footer->Chunk(g, leaf);
          ASSERT_TRUE(got.ok());
          const auto& of_leaf = expected[static_cast<size_t>(leaf)];
          EXPECT_EQ(*got, of_leaf[static_cast<size_t>(g)]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(spec.footer->Chunk(4, 0).ok());
  EXPECT_FALSE(spec.footer->Chunk(0, leaves).ok());
}

}  // namespace
}  // namespace fastload
