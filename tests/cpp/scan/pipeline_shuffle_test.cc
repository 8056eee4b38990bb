// Tests of windows with more rows than a bucket of the shuffle.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fastload/scan/pipeline.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::CutPlan;
using testing::Deliver;
using testing::Delivered;
using testing::PlanBuilder;

// Threads, and the bytes up to which a column is gathered row by row: all columns in two
// steps, those of more than 100 KB, or none. ThreadSanitizer, which makes each way take
// long, has nothing to find without threads.
constexpr std::pair<int32_t, int64_t> kWays[] = {
#ifndef __SANITIZE_THREAD__
    {0, 0}, {0, 100'000}, {0, 1 << 30},
#endif
    {3, 0}, {3, 100'000}, {3, 1 << 30}};

class PipelineShuffleTest : public ::testing::Test {
 protected:
  PipelineShuffleTest() {
    const std::string path = directory_.File("part.parquet");
    testing::WriteRows(path, 0, {45'000, 36'000});
    files_ = {testing::SpecOf(path)};
  }

  void Check(const ReadPlan& plan, const std::vector<OutputSpec>& outputs) const {
    const std::vector<std::string> expected = testing::PlannedTexts(plan, files_);
    const Layout layout(testing::Columns(1), outputs);
    for (const auto& [threads, cache_bytes] : kWays) {
      Pipeline pipeline(files_, testing::Columns(1), outputs,
                        PipelineOptions{.threads = threads, .io_threads = threads});
      const auto scan =
          pipeline.Start(plan, {.cache_bytes = cache_bytes, .segment_bytes = 10'000})
              .ValueOrDie();
      const Delivered delivered = Deliver(scan.get());
      ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
      size_t row = 0;
      for (const Batch& batch : delivered.batches) {
        for (const std::string& line : testing::Texts(layout, batch)) {
          ASSERT_EQ(line, expected[row]) << row;
          ++row;
        }
      }
      EXPECT_EQ(row, expected.size());
    }
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
};

TEST_F(PipelineShuffleTest, OneWindow) {
  Check(CutPlan({{0, 1, 0, 36'000}, {0, 0, 0, 45'000}}, 81'000, 7000, true),
        testing::Outputs());
}

TEST_F(PipelineShuffleTest, TakesAndBatchesAcrossBucketsAndWindows) {
  const auto plan = PlanBuilder(true)
                        .Window({{0, 1, 1000, 36'000}}, {{100, 200}, {10'000, 20'000}})
                        .Window({{0, 0, 0, 40'000}}, {{0, 19'990},
                                                      {19'995, 20'300},
                                                      {39'000, 40'000},
                                                      {39'999, 40'000},
                                                      {39'999, 40'000}})
                        .Build(3001, /*padding=*/2);
  Check(plan, testing::Outputs());
}

// Reads columns of one window of the first row group, alone and a few together.
void CheckColumns(const std::vector<FileSpec>& files) {
  const ReadPlan plan = CutPlan({{0, 0, 0, 45'000}}, 45'000, 45'000, true);
  Shuffle shuffle;
  MakeShuffle(plan.keys[0], 45'000, &shuffle);
  const Shuffle::Numbers& order = shuffle.rows;
  for (const auto& [threads, cache_bytes] : kWays) {
    Pipeline pipeline(files, testing::Columns(1),
                      {{OutputKind::kColumn, {0}},
                       {OutputKind::kColumn, {1}},
                       {OutputKind::kColumn, {3}},
                       {OutputKind::kColumn, {4}},
                       {OutputKind::kStack, {5, 4, 6}}},
                      PipelineOptions{.threads = threads, .io_threads = threads});
    const auto scan = pipeline.Start(plan, {.cache_bytes = cache_bytes}).ValueOrDie();
    const Delivered delivered = Deliver(scan.get());
    ASSERT_EQ(delivered.batches.size(), 1);
    const uint8_t* base = delivered.batches[0].block->data();
    const AreaNumbers& n = delivered.batches[0].areas.numbers;
    const auto* number = reinterpret_cast<const int64_t*>(base + n[0]);
    const auto* half = reinterpret_cast<const float*>(base + n[2]);
    const auto* stacked = reinterpret_cast<const float*>(base + n[2] + n[3]);
    const uint8_t* flag = base + n[4];
    const auto* rows = reinterpret_cast<const float*>(base + n[6]);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto values = testing::ValuesAt(0, order[i]);
      ASSERT_EQ(number[i], values.number) << i;
      ASSERT_EQ(half[i], values.half_valid ? values.half : -1.0F) << i;
      ASSERT_EQ(flag[i] != 0, values.flag) << i;
      ASSERT_EQ(stacked[i], testing::StackedAt(order[i], 0)) << i;
      ASSERT_EQ(rows[3 * i], testing::StackedAt(order[i], 1)) << i;
      ASSERT_EQ(rows[3 * i + 1], testing::StackedAt(order[i], 0)) << i;
      ASSERT_EQ(rows[3 * i + 2], testing::StackedAt(order[i], 2)) << i;
    }
  }
}

// The same columns without copies or validity take other paths to the same rows.
TEST_F(PipelineShuffleTest, SingleColumnsAndANarrowStack) { CheckColumns(files_); }

TEST_F(PipelineShuffleTest, ColumnsThatCeaseToBeCodes) {
  const std::string path = directory_.File("codes-then-values.parquet");
  testing::WriteRows(path, 0, {45'000}, /*dictionary_bytes=*/4000);
  CheckColumns({testing::SpecOf(path)});
}

}  // namespace
}  // namespace fastload
