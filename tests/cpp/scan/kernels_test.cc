#include "fastload/scan/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fastload/base/stream_key.h"

namespace fastload {
namespace {

constexpr int64_t kRows = 5;

// A kernel that writes out[i] = a[i] + 10 and then the seed.
int64_t AddTen(void** arrays, int64_t rows) {
  const auto* in = static_cast<const int64_t*>(arrays[0]);
  const auto* seeds = static_cast<const uint64_t*>(arrays[1]);
  auto* out = static_cast<int64_t*>(arrays[2]);
  auto* kept = static_cast<uint64_t*>(arrays[3]);
  for (int64_t i = 0; i < rows; ++i) {
    if (out[i] != 0) return 2;  // the output was not zeroed
    out[i] = in[i] + 10;
    kept[i] = seeds[i];
  }
  return 0;
}

int64_t FailHalfway(void** arrays, int64_t) {
  static_cast<int64_t*>(arrays[1])[0] = 99;
  return 1;
}

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() : memory_(static_cast<size_t>(areas_.bytes), uint8_t{0xff}) {
    for (int64_t i = 0; i < kRows; ++i) {
      At<int64_t>(0)[i] = i;
      At<int32_t>(1)[i] = 7;
      At<int64_t>(2)[i] = 100 + i;
    }
  }

  template <typename T>
  T* At(int32_t output) {
    return reinterpret_cast<T*>(
        Layout::Address(memory_.data(), areas_, layout_.slot(output)));
  }

  int32_t Run(std::vector<KernelSpec> specs) {
    const std::vector<uint64_t> keys(specs.size(), 3);
    EXPECT_TRUE(CheckKernels(specs, outputs_).ok());
    const Kernels kernels(std::move(specs), layout_);
    Scratch scratch;
    return kernels.Run(memory_.data(), areas_, keys, scratch).ValueOrDie();
  }

  std::vector<ColumnSpec> columns_{{.name = "a", .leaves = {0}, .constants = {}}};
  std::vector<OutputSpec> outputs_{
      {.kind = OutputKind::kColumn, .columns = {0}},
      {.kind = OutputKind::kFile, .columns = {}},
      {.kind = OutputKind::kRow, .columns = {}},
      {.kind = OutputKind::kComputed, .columns = {}, .dtype = DType::kUInt64}};
  Layout layout_{columns_, outputs_};
  Layout::Areas areas_ = layout_.Place(kRows, {});
  std::vector<uint8_t> memory_;
};

TEST_F(KernelsTest, ReplacesAColumnAndTakesSeeds) {
  EXPECT_EQ(
      Run({{.entry = AddTen, .inputs = {0}, .outputs = {0, 3}, .file = 1, .row = 2}}),
      -1);
  for (int64_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(At<int64_t>(0)[i], i + 10);
    EXPECT_EQ(At<uint64_t>(3)[i], Fold(Fold(3, 7), static_cast<uint64_t>(100 + i)));
  }
}

TEST_F(KernelsTest, OneThatFailsLeavesItsInputs) {
  EXPECT_EQ(Run({{.entry = AddTen, .inputs = {0}, .outputs = {0, 3}, .file = 1, .row = 2},
                 {.entry = FailHalfway, .inputs = {0}, .outputs = {0}}}),
            1);
  for (int64_t i = 0; i < kRows; ++i) EXPECT_EQ(At<int64_t>(0)[i], i + 10);
}

TEST_F(KernelsTest, RefusesWhatIsNotThere) {
  const auto refused = [&](KernelSpec spec) {
    return !CheckKernels({std::move(spec)}, outputs_).ok();
  };
  EXPECT_TRUE(refused({.entry = nullptr, .inputs = {0}, .outputs = {3}}));
  EXPECT_TRUE(refused({.entry = AddTen, .inputs = {4}, .outputs = {3}}));
  EXPECT_TRUE(refused({.entry = AddTen, .inputs = {0}, .outputs = {-1}}));
  EXPECT_TRUE(
      refused({.entry = AddTen, .inputs = {0}, .outputs = {3}, .file = 4, .row = 2}));
  EXPECT_TRUE(
      refused({.entry = AddTen, .inputs = {0}, .outputs = {3}, .file = 2, .row = 1}));
  EXPECT_TRUE(refused({.entry = AddTen, .inputs = {0}, .outputs = {3}, .file = 1}));
}

}  // namespace
}  // namespace fastload
