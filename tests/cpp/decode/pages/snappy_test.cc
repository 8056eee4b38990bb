#include "fastload/decode/pages/snappy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "arrow/util/compression.h"

namespace fastload {
namespace {

using Bytes = std::vector<uint8_t>;

// Returns memory without spare bytes, so that a sanitizer sees reads behind the end.
std::unique_ptr<uint8_t[]> Exact(const Bytes& bytes) {
  auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return copy;
}

struct Output {
  bool ok = false;
  Bytes bytes;
};

// Decompresses between two guards, which must stay unchanged.
Output Decompress(const Bytes& compressed, int64_t size) {
  constexpr int64_t kGuard = 64;
  constexpr uint8_t kMark = 0xA7;
  Bytes memory(static_cast<size_t>(size + kSnappySlack + 2 * kGuard), kMark);
  const auto input = Exact(compressed);
  Output output;
  output.ok =
      SnappyDecompress({input.get(), compressed.size()}, memory.data() + kGuard, size);
  const auto is_mark = [](uint8_t byte) { return byte == kMark; };
  EXPECT_TRUE(std::all_of(memory.begin(), memory.begin() + kGuard, is_mark));
  EXPECT_TRUE(std::all_of(memory.end() - kGuard, memory.end(), is_mark));
  output.bytes.assign(memory.begin() + kGuard, memory.begin() + kGuard + size);
  return output;
}

Bytes Compress(const Bytes& plain) {
  const auto codec = *arrow::util::Codec::Create(arrow::Compression::SNAPPY);
  const auto size = static_cast<int64_t>(plain.size());
  Bytes compressed(static_cast<size_t>(codec->MaxCompressedLen(size, plain.data())));
  compressed.resize(static_cast<size_t>(*codec->Compress(
      size, plain.data(), static_cast<int64_t>(compressed.size()), compressed.data())));
  return compressed;
}

// Decompresses with Arrow; not ok if Arrow finds the bytes damaged.
Output ByArrow(const Bytes& compressed, int64_t size) {
  const auto codec = *arrow::util::Codec::Create(arrow::Compression::SNAPPY);
  Output output{.ok = true, .bytes = Bytes(static_cast<size_t>(size))};
  const auto written = codec->Decompress(static_cast<int64_t>(compressed.size()),
                                         compressed.data(), size, output.bytes.data());
  output.ok = written.ok() && *written == size;
  return output;
}

// Returns bytes that repeat after all kinds of distances, among bytes that don't repeat.
Bytes Repetitive(size_t size, std::mt19937* random) {
  Bytes bytes;
  while (bytes.size() < size) {
    const size_t distance = 1 + (*random)() % (1U << ((*random)() % 17));
    const size_t length = 1 + (*random)() % 90;
    if (distance > bytes.size() || (*random)() % 3 == 0) {
      for (size_t i = 0; i < length; ++i)
        bytes.push_back(static_cast<uint8_t>((*random)()));
    } else {
      for (size_t i = 0; i < length; ++i) bytes.push_back(bytes[bytes.size() - distance]);
    }
  }
  bytes.resize(size);
  return bytes;
}

TEST(Snappy, GivesBackWhatWasCompressed) {
  std::mt19937 random(1);
  for (size_t size : {0, 1, 3, 59, 60, 61, 64, 65, 255, 256, 257, 65535, 65536, 300000}) {
    for (const Bytes& plain : {Repetitive(size, &random), Bytes(size, 7)}) {
      const Bytes compressed = Compress(plain);
      EXPECT_EQ(SnappySize(compressed), static_cast<int64_t>(size));
      const Output output = Decompress(compressed, static_cast<int64_t>(size));
      EXPECT_TRUE(output.ok) << size;
      EXPECT_EQ(output.bytes, plain) << size;
    }
  }
}

// A compressor uses only some elements; this input has every element, near the end and
// far from the end.
TEST(Snappy, TakesEveryElement) {
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz";
  for (uint32_t tag = 0; tag < 256; ++tag) {
    for (size_t behind : {0, 100}) {
      Bytes body;
      Bytes plain(text.begin(), text.end());
      body.push_back(static_cast<uint8_t>((text.size() - 1) << 2));
      body.insert(body.end(), text.begin(), text.end());
      body.push_back(static_cast<uint8_t>(tag));
      const auto number = [&](uint32_t value, int bytes) {
        for (int i = 0; i < bytes; ++i)
          body.push_back(static_cast<uint8_t>(value >> (8 * i)));
      };
      const auto copy = [&](size_t distance, size_t length) {
        for (size_t i = 0; i < length; ++i)
          plain.push_back(plain[plain.size() - distance]);
      };
      const size_t length = (tag >> 2) + 1;
      if ((tag & 3) == 0) {
        const size_t literal = length > 60 ? 70 : length;
        if (length > 60)
          number(static_cast<uint32_t>(literal - 1), static_cast<int>(length) - 60);
        for (size_t i = 0; i < literal; ++i) {
          body.push_back(static_cast<uint8_t>(i));
          plain.push_back(static_cast<uint8_t>(i));
        }
      } else if ((tag & 3) == 1) {
        if (tag >> 5 != 0) continue;  // farther back than the output begins
        number(1 + tag % 30, 1);
        copy(1 + tag % 30, ((tag >> 2) & 7) + 4);
      } else {
        number(1 + tag % 36, (tag & 3) == 2 ? 2 : 4);
        copy(1 + tag % 36, length);
      }
      for (size_t i = 0; i < behind; ++i) {
        body.insert(body.end(), {0, static_cast<uint8_t>(i)});  // a literal of one byte
        plain.push_back(static_cast<uint8_t>(i));
      }
      Bytes compressed = {static_cast<uint8_t>(plain.size() | 0x80),
                          static_cast<uint8_t>(plain.size() >> 7)};
      compressed.insert(compressed.end(), body.begin(), body.end());
      const auto size = static_cast<int64_t>(plain.size());
      ASSERT_TRUE(ByArrow(compressed, size).ok) << tag;
      const Output output = Decompress(compressed, size);
      EXPECT_TRUE(output.ok) << tag;
      EXPECT_EQ(output.bytes, plain) << tag;
    }
  }
}

// A short distance repeats a pattern within one word; the last copy ends where the output
// ends, or is followed by literals, so that both loops copy.
TEST(Snappy, RepeatsEveryShortDistance) {
  const std::string text = "abcdefghijklmnop";
  for (size_t distance = 1; distance <= 16; ++distance) {
    for (size_t length = 1; length <= 64; ++length) {
      for (size_t behind : {0, 1, 3, 100}) {
        Bytes plain(text.begin(), text.end());
        Bytes body = {static_cast<uint8_t>((text.size() - 1) << 2)};
        body.insert(body.end(), text.begin(), text.end());
        // The literal of one byte before the second copy moves the pattern.
        for (int copies = 0; copies < 2; ++copies) {
          body.insert(body.end(), {0, 'x', static_cast<uint8_t>((length - 1) << 2 | 2),
                                   static_cast<uint8_t>(distance), 0});
          plain.push_back('x');
          for (size_t i = 0; i < length; ++i)
            plain.push_back(plain[plain.size() - distance]);
        }
        for (size_t i = 0; i < behind; ++i) {
          body.insert(body.end(), {0, static_cast<uint8_t>(i)});
          plain.push_back(static_cast<uint8_t>(i));
        }
        Bytes compressed = {static_cast<uint8_t>(plain.size() | 0x80),
                            static_cast<uint8_t>(plain.size() >> 7)};
        compressed.insert(compressed.end(), body.begin(), body.end());
        const Output output = Decompress(compressed, static_cast<int64_t>(plain.size()));
        EXPECT_TRUE(output.ok) << distance << " " << length;
        EXPECT_EQ(output.bytes, plain) << distance << " " << length;
      }
    }
  }
}

TEST(Snappy, TakesDamagedBytesAsArrowDoes) {
  std::mt19937 random(2);
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const Bytes plain = Repetitive(random() % 700, &random);
    Bytes compressed = Compress(plain);
    if (random() % 2 == 0) compressed.resize(random() % (compressed.size() + 1));
    for (auto flips = random() % 4; flips > 0 && !compressed.empty(); --flips) {
      compressed[random() % compressed.size()] = static_cast<uint8_t>(random());
    }
    const auto size = static_cast<int64_t>(plain.size());
    const Output expected = ByArrow(compressed, size);
    const Output output = Decompress(compressed, size);
    EXPECT_EQ(output.ok, expected.ok) << trial;
    if (output.ok) {
      EXPECT_EQ(output.bytes, expected.bytes) << trial;
    }
    refused += output.ok ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

// The literal's length has 32 bits in Snappy's own decoder, where 2^32 becomes 0.
TEST(Snappy, TakesTheLongestLiteralForNone) {
  for (size_t behind : {0, 3, 100}) {
    Bytes compressed = {static_cast<uint8_t>(behind), 63 << 2, 0xFF, 0xFF, 0xFF, 0xFF};
    for (size_t i = 0; i < behind; ++i) {
      compressed.insert(compressed.end(), {0, static_cast<uint8_t>(i)});
    }
    const auto size = static_cast<int64_t>(behind);
    const Output expected = ByArrow(compressed, size);
    const Output output = Decompress(compressed, size);
    EXPECT_TRUE(expected.ok) << behind;
    EXPECT_TRUE(output.ok) << behind;
    EXPECT_EQ(output.bytes, expected.bytes) << behind;
  }
}

TEST(Snappy, SizesThatTheBytesCannotHoldAreNone) {
  EXPECT_EQ(SnappySize({}), std::nullopt);
  EXPECT_EQ(SnappySize(Bytes{0x80}), std::nullopt);
  EXPECT_EQ(SnappySize(Bytes{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}), std::nullopt);
  EXPECT_EQ(SnappySize(Bytes{0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0x00}), std::nullopt);
  EXPECT_EQ(SnappySize(Bytes{0}), 0);
}

}  // namespace
}  // namespace fastload
