#include "fastload/decode/values/vocabulary.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fastload/base/hash.h"

namespace fastload {
namespace {

TEST(Hash, GivesThePublishedValues) {
  EXPECT_EQ(Hash64("", 0, 0), 0xEF46DB3751D8E999);
  EXPECT_EQ(Hash64("abc", 3, 0), 0x44BC2CF5AD770999);
  EXPECT_EQ(Hash64("", 0, 2654435761U), 0xAC75FDA2929B17EF);
  const int64_t value = -5;
  EXPECT_EQ(Hash64(value, 42), Hash64("\xFB\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, 42));
}

TEST(Vocabulary, FindsBytes) {
  const auto vocabulary =
      *Vocabulary::OfBytes({"red", "", "green", std::string("a\0b", 3), "a"});
  const auto find = [&](const std::string& key) {
    return vocabulary->Find(reinterpret_cast<const uint8_t*>(key.data()), key.size(), -9);
  };
  EXPECT_EQ(find("red"), 0);
  EXPECT_EQ(find(""), 1);
  EXPECT_EQ(find(std::string("a\0b", 3)), 3);
  EXPECT_EQ(find("a"), 4);
  EXPECT_EQ(find("gree"), -9);
  EXPECT_EQ(vocabulary->Find(nullptr, 0, -9), 1);
}

TEST(Vocabulary, FindsIntegers) {
  std::vector<Vocabulary::Integer> entries = {
      {5, false}, {static_cast<uint64_t>(int64_t{-1}), false}, {~uint64_t{0}, true}};
  for (uint64_t i = 0; i < 100'000; ++i) entries.push_back({i << 40 | 1, false});
  const auto vocabulary = *Vocabulary::OfIntegers(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(vocabulary->Find(entries[i], -9), static_cast<int64_t>(i));
  }
  EXPECT_EQ(vocabulary->Find({5, true}, -9), -9);
  EXPECT_EQ(vocabulary->Find({6, false}, -9), -9);
}

TEST(Vocabulary, RefusesAnEntryTwice) {
  EXPECT_EQ(Vocabulary::OfBytes({"a", "b", "a"}).status().message(),
            "Expected each entry of the vocabulary once, got entry 0 again as entry 2");
  EXPECT_FALSE(Vocabulary::OfIntegers({{1, false}, {1, false}}).ok());
  EXPECT_TRUE(Vocabulary::OfIntegers({{1, false}, {1, true}}).ok());
}

TEST(Vocabulary, MayBeEmpty) {
  EXPECT_EQ((*Vocabulary::OfBytes({}))->Find(nullptr, 0, 3), 3);
  EXPECT_EQ((*Vocabulary::OfIntegers({}))->Find({0, false}, 3), 3);
}

}  // namespace
}  // namespace fastload
