#include "fastload/decode/pages/kept_dictionaries.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace fastload {
namespace {

class Sized final : public DecodedDictionary {
 public:
  explicit Sized(int64_t bytes) : bytes_(bytes) {}
  int64_t bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

using Key = KeptDictionaries::Key;

TEST(KeptDictionaries, FindsWhatWasKept) {
  KeptDictionaries kept(10'000);
  const auto first = std::make_shared<Sized>(1000);
  kept.Keep(Key{0, 1, 2}, first);
  EXPECT_EQ(kept.Find(Key{0, 1, 2}), first);
  EXPECT_EQ(kept.Find(Key{0, 1, 3}), nullptr);
  EXPECT_EQ(kept.Find(Key{1, 1, 2}), nullptr);
  // Another take may have decoded the dictionary at the same time.
  kept.Keep(Key{0, 1, 2}, std::make_shared<Sized>(1000));
  EXPECT_EQ(kept.Find(Key{0, 1, 2}), first);
  EXPECT_EQ(kept.stats().served, 2);
  EXPECT_GE(kept.stats().bytes, 1000);
  EXPECT_LT(kept.stats().bytes, 2000);
}

TEST(KeptDictionaries, LetsGoOfWhatWasAskedForLongestAgo) {
  KeptDictionaries kept(10'000);
  kept.Keep(Key{0, 0, 0}, std::make_shared<Sized>(4000));
  kept.Keep(Key{0, 0, 1}, std::make_shared<Sized>(4000));
  const auto held = kept.Find(Key{0, 0, 1});
  EXPECT_NE(kept.Find(Key{0, 0, 0}), nullptr);
  kept.Keep(Key{0, 0, 2}, std::make_shared<Sized>(4000));
  EXPECT_EQ(kept.Find(Key{0, 0, 1}), nullptr);
  EXPECT_NE(kept.Find(Key{0, 0, 0}), nullptr);
  EXPECT_NE(kept.Find(Key{0, 0, 2}), nullptr);
  EXPECT_LE(kept.stats().bytes, 10'000);
  EXPECT_EQ(held->bytes(), 4000);
}

TEST(KeptDictionaries, KeepsNothingBeyondTheLimit) {
  KeptDictionaries kept(10'000);
  kept.Keep(Key{0, 0, 0}, std::make_shared<Sized>(1000));
  kept.Keep(Key{0, 0, 1}, std::make_shared<Sized>(10'000));
  EXPECT_EQ(kept.Find(Key{0, 0, 1}), nullptr);
  EXPECT_NE(kept.Find(Key{0, 0, 0}), nullptr);
  EXPECT_FALSE(KeptDictionaries(0).on());
}

}  // namespace
}  // namespace fastload
