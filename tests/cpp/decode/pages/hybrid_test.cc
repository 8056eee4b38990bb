#include "fastload/decode/pages/hybrid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace fastload {
namespace {

struct Encoded {
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> values;
};

void PutHeader(uint64_t header, std::vector<uint8_t>* bytes) {
  while (header >= 0x80) {
    bytes->push_back(static_cast<uint8_t>(header | 0x80));
    header >>= 7;
  }
  bytes->push_back(static_cast<uint8_t>(header));
}

// Returns runs of both kinds, written bit by bit.
Encoded RandomRuns(int width, std::mt19937* random) {
  Encoded encoded;
  const uint32_t mask = width == 0 ? 0 : 0xFFFFFFFFU >> (32 - width);
  for (int run = 0; run < 12; ++run) {
    if ((*random)() % 2 == 0) {
      const uint32_t length = 1 + (*random)() % 300;
      const uint32_t value = (*random)() & mask;
      PutHeader(uint64_t{length} << 1, &encoded.bytes);
      for (int i = 0; i < (width + 7) / 8; ++i) {
        encoded.bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
      }
      encoded.values.insert(encoded.values.end(), length, value);
    } else {
      const uint32_t groups = 1 + (*random)() % 90;
      PutHeader((uint64_t{groups} << 1) | 1, &encoded.bytes);
      const size_t start = encoded.bytes.size();
      encoded.bytes.resize(start + groups * width);
      for (uint32_t i = 0; i < groups * 8; ++i) {
        const uint32_t value = (*random)() & mask;
        encoded.values.push_back(value);
        for (int bit = 0; bit < width; ++bit) {
          const size_t at = static_cast<size_t>(i) * width + bit;
          const auto one = static_cast<uint8_t>(((value >> bit) & 1) << (at % 8));
          encoded.bytes[start + at / 8] |= one;
        }
      }
    }
  }
  return encoded;
}

TEST(HybridDecoder, FindsZerosInPieces) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const Encoded encoded = RandomRuns(1, &random);
    HybridDecoder decoder;
    decoder.Reset(encoded.bytes.data(), static_cast<int64_t>(encoded.bytes.size()), 1);
    for (size_t at = 0; at < encoded.values.size();) {
      const size_t n = std::min<size_t>(encoded.values.size() - at, 1 + random() % 500);
      std::vector<uint16_t> zeros(n);
      zeros.resize(
          static_cast<size_t>(*decoder.FindZeros(static_cast<int64_t>(n), zeros.data())));
      std::vector<uint16_t> expected;
      for (size_t i = 0; i < n; ++i) {
        if (encoded.values[at + i] == 0) expected.push_back(static_cast<uint16_t>(i));
      }
      ASSERT_EQ(zeros, expected) << at;
      at += n;
    }
    uint16_t zero;
    EXPECT_EQ(KindOf(decoder.FindZeros(1, &zero).status()), ErrorKind::kCorruptFile);
  }
}

TEST(HybridDecoder, SkipsEqualRows) {
  // Three rows of a 0 and 19 ones, in 8 packed values and a run of 12, then one row of
  // 26.
  std::vector<uint8_t> bytes;
  for (const uint8_t ones : {12, 12, 12, 18}) {
    bytes.insert(bytes.end(), {3, 0xFE, static_cast<uint8_t>(ones << 1), 1});
  }
  const auto size = static_cast<int64_t>(bytes.size());
  HybridDecoder decoder;
  for (const int64_t most : {0, 1, 2, 3, 9}) {
    decoder.Reset(bytes.data(), size, 1);
    const int64_t rows = *decoder.SkipEqualRows(20, most);
    EXPECT_EQ(rows, std::min<int64_t>(most, 3));
    std::vector<uint8_t> rest(static_cast<size_t>(86 - rows * 20));
    ASSERT_TRUE(decoder.DecodeBits(static_cast<int64_t>(rest.size()), rest.data()).ok());
    EXPECT_EQ(std::count(rest.begin(), rest.end(), 0), 4 - rows);
  }
  for (const int64_t length : {1, 7, 19, 21, 28, 40}) {
    decoder.Reset(bytes.data(), size, 1);
    EXPECT_EQ(*decoder.SkipEqualRows(length, 2), 0) << length;
    EXPECT_EQ(decoder.Peek()->length, 8);
  }
  decoder.Reset(bytes.data(), size, 1);
  ASSERT_TRUE(decoder.Skip(3).ok());
  EXPECT_EQ(*decoder.SkipEqualRows(20, 2), 0);
}

TEST(HybridDecoder, DecodesEveryWidthInPieces) {
  std::mt19937 random(1);
  for (int width = 0; width <= 32; ++width) {
    const Encoded encoded = RandomRuns(width, &random);
    // The bytes are copied, so that a read past the end is a read past an allocation.
    const std::vector<uint8_t> bytes(encoded.bytes);
    HybridDecoder decoder;
    decoder.Reset(bytes.data(), static_cast<int64_t>(bytes.size()), width);
    const auto total = static_cast<int64_t>(encoded.values.size());
    for (int64_t row = 0; row < total;) {
      const auto n = std::min<int64_t>(total - row, 1 + random() % 400);
      if (random() % 4 == 0) {
        ASSERT_TRUE(decoder.Skip(n).ok());
      } else {
        std::vector<uint32_t> out(n);
        ASSERT_TRUE(decoder.Decode(n, out.data()).ok());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(out[i], encoded.values[row + i]) << "width " << width;
        }
      }
      row += n;
    }
    ASSERT_EQ(decoder.Peek()->length, 0);
    uint32_t more = 0;
    EXPECT_EQ(KindOf(decoder.Decode(1, &more)), ErrorKind::kCorruptFile);
  }
}

TEST(HybridDecoder, LooksUpAndChecksIndices) {
  std::mt19937 random(2);
  for (int width = 0; width <= 18; ++width) {
    const Encoded encoded = RandomRuns(width, &random);
    uint32_t largest = 0;
    for (const uint32_t value : encoded.values) largest = std::max(largest, value);
    std::vector<uint64_t> dictionary(largest + 1);
    for (uint32_t i = 0; i <= largest; ++i) dictionary[i] = i * 1'000'003ULL;
    const auto total = static_cast<int64_t>(encoded.values.size());
    std::vector<uint64_t> out(total);
    HybridDecoder decoder;
    const auto reset = [&] {
      decoder.Reset(encoded.bytes.data(), static_cast<int64_t>(encoded.bytes.size()),
                    width);
    };
    reset();
    ASSERT_TRUE(decoder.Lookup(dictionary.data(), largest + 1, total, out.data()).ok());
    for (int64_t i = 0; i < total; ++i) {
      ASSERT_EQ(out[i], dictionary[encoded.values[i]]);
    }
    reset();
    const Status status = decoder.Lookup(dictionary.data(), largest, total, out.data());
    EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
  }
}

TEST(HybridDecoder, DecodesBits) {
  std::mt19937 random(3);
  const Encoded encoded = RandomRuns(1, &random);
  HybridDecoder decoder;
  decoder.Reset(encoded.bytes.data(), static_cast<int64_t>(encoded.bytes.size()), 1);
  const auto total = static_cast<int64_t>(encoded.values.size());
  for (int64_t row = 0; row < total;) {
    const auto n = std::min<int64_t>(total - row, 1 + random() % 50);
    std::vector<uint8_t> out(n);
    ASSERT_TRUE(decoder.DecodeBits(n, out.data()).ok());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], encoded.values[row + i]);
    row += n;
  }
}

TEST(HybridDecoder, ABitIsTheLowestOfItsByte) {
  const std::vector<uint8_t> bytes = {3 << 1, 0x24, 2 << 1, 0x81};
  HybridDecoder decoder;
  decoder.Reset(bytes.data(), static_cast<int64_t>(bytes.size()), 1);
  std::array<uint8_t, 5> out{};
  ASSERT_TRUE(decoder.DecodeBits(5, out.data()).ok());
  EXPECT_EQ(out, (std::array<uint8_t, 5>{0, 0, 0, 1, 1}));
  decoder.Reset(bytes.data(), static_cast<int64_t>(bytes.size()), 1);
  std::array<uint16_t, 5> zeros{};
  EXPECT_EQ(*decoder.FindZeros(5, zeros.data()), 3);
  EXPECT_EQ(zeros, (std::array<uint16_t, 5>{0, 1, 2}));
}

TEST(HybridDecoder, EmptyRunsMayComeLast) {
  // Two equal values, then an empty packed run, then an empty run of equal values.
  const std::vector<uint8_t> bytes = {2 << 1, 1, (0 << 1) | 1, 0 << 1, 0};
  HybridDecoder decoder;
  decoder.Reset(bytes.data(), static_cast<int64_t>(bytes.size()), 1);
  ASSERT_TRUE(decoder.Skip(2).ok());
  const auto run = decoder.Peek();
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->length, 0);
  EXPECT_FALSE(decoder.Skip(1).ok());
}

TEST(HybridDecoder, RandomBytesGiveValuesOrAnError) {
  std::mt19937 random(4);
  for (int round = 0; round < 5000; ++round) {
    std::vector<uint8_t> bytes(random() % 60);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    HybridDecoder decoder;
    decoder.Reset(bytes.data(), static_cast<int64_t>(bytes.size()), random() % 33);
    std::vector<uint32_t> out(1 + random() % 700);
    const Status status = decoder.Decode(static_cast<int64_t>(out.size()), out.data());
    if (!status.ok()) {
      EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
    }
  }
}

}  // namespace
}  // namespace fastload
