// Tests of the lanes of a plan: which rows of a batch come from which window.
#include "fastload/scan/lanes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fastload/scan/pipeline.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::PlanBuilder;

TEST(Lanes, OneLaneHasBatchesOfEqualSize) {
  const ReadPlan plan =
      PlanBuilder(false).Window({{0, 0, 0, 5}}).Window({{0, 0, 5, 9}}).Build(4);
  const Lanes lanes(&plan);
  EXPECT_EQ(lanes.FirstRow(1), 5);
  EXPECT_EQ(lanes.Rows(1), 4);
  EXPECT_EQ(lanes.Before(1), 0);
  EXPECT_EQ(lanes.After(1), -1);
  EXPECT_EQ(lanes.BatchOf(0, 7), 1);
  EXPECT_EQ(lanes.LastWindow(0), 0);
  EXPECT_EQ(lanes.LastWindow(1), 1);
  EXPECT_EQ(lanes.RealRows(0), 9);
}

// Two batches of two lanes. Lane 0 has the segments of windows 0 and 2, lane 1 that of
// window 1; batch 0 takes three segments of lane 0.
TEST(Lanes, PackedPlansKnowTheElementsOfBatches) {
  ReadPlan plan;
  plan.keys = {0, 0, 0};
  plan.takes = {{0, 2}, {2, 5}, {5, 7}};
  plan.first_take = {0, 1, 2, 3};
  std::vector<Segment> segments;
  for (const uint32_t size : {3, 4, 8, 2, 6, 1, 8}) {
    segments.push_back({0, 0, size, size});
  }
  plan.segments = segments;
  plan.rows = 7;
  plan.lane_of = {0, 1, 0};
  plan.lane_padding = {0, 0};
  plan.batch_edges = {0, 3, 4, 5, 7};
  const Lanes lanes(&plan);
  EXPECT_EQ(lanes.Items(0), 3 + 4 + 1 + 8);
  EXPECT_EQ(lanes.Items(1), 8 + 2 + 6);
  EXPECT_EQ(lanes.ItemsBefore(0, 0), 0);
  EXPECT_EQ(lanes.ItemsBefore(0, 1), 3 + 4 + 1);
  EXPECT_EQ(lanes.ItemsBefore(0, 2), 3 + 4);
  EXPECT_EQ(lanes.ItemsBefore(1, 2), 0);
  EXPECT_EQ(lanes.ItemsBefore(1, 1), 8);
}

// Two lanes: rows 0 to 44'999 and 45'000 to 80'999 of a file, in windows that go on in
// the middle of a row group and end in the middle of batches.
class LanesTest : public ::testing::Test {
 protected:
  LanesTest() {
    const std::string path = directory_.File("part.parquet");
    testing::WriteRows(path, 0, {45'000, 36'000});
    files_ = {testing::SpecOf(path)};
    plan_ = PlanBuilder(true)
                .Window({{0, 0, 0, 20'000}})
                .Window({{0, 1, 0, 11'000}})
                .Window({{0, 1, 11'000, 36'000}})
                .Window({{0, 0, 20'000, 36'000}})
                .Build(3000);
    plan_.lane_of = {0, 1, 1, 0};
    plan_.lane_padding = {0, 1};
    plan_.batch_edges = {0};
    for (int batch = 0; batch < 36; ++batch) {
      for (int lane = 0; lane < 2; ++lane) {
        plan_.batch_edges.push_back(plan_.batch_edges.back() + 1000);
      }
    }
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  ReadPlan plan_;
};

TEST_F(LanesTest, WindowsKnowTheirNeighbours) {
  const Lanes lanes(&plan_);
  EXPECT_EQ(lanes.Before(2), 1);
  EXPECT_EQ(lanes.Before(3), 0);
  EXPECT_EQ(lanes.After(0), 3);
  EXPECT_EQ(lanes.After(3), -1);
  EXPECT_EQ(lanes.FirstRow(2), 11'000);
  EXPECT_EQ(lanes.LastWindow(0), 1);
  EXPECT_EQ(lanes.LastWindow(11), 2);
  EXPECT_EQ(lanes.LastWindow(20), 3);
  EXPECT_EQ(lanes.RealRows(0), 36'000);
  EXPECT_EQ(lanes.RealRows(1), 35'999);
}

TEST_F(LanesTest, BatchesHoldTheRowsOfAllLanes) {
  // The rows of each lane, in its order.
  std::vector<std::vector<std::string>> of_lanes(2);
  ReadPlan alone = plan_;
  alone.lane_of.clear();
  alone.lane_padding.clear();
  alone.batch_edges.clear();
  const std::vector<std::string> all = testing::PlannedTexts(alone, files_);
  size_t at = 0;
  for (const auto& [lane, rows] : std::vector<std::pair<size_t, size_t>>{
           {0, 20'000}, {1, 11'000}, {1, 25'000}, {0, 16'000}}) {
    for (size_t i = 0; i < rows; ++i) of_lanes[lane].push_back(all[at++]);
  }
  // With lists, batches are joined; without, windows write to the batch's memory.
  for (const bool lists : {true, false}) {
    std::vector<OutputSpec> outputs = testing::Outputs();
    if (!lists) outputs = {{OutputKind::kColumn, {0}}};
    const Layout layout(testing::Columns(1), outputs);
    for (const int32_t threads : {0, 3}) {
      Pipeline pipeline(files_, testing::Columns(1), outputs,
                        PipelineOptions{.threads = threads, .io_threads = threads});
      const auto scan =
          pipeline.Start(plan_, {.open_windows = 2, .segment_bytes = 10'000})
              .ValueOrDie();
      const testing::Delivered delivered = testing::Deliver(scan.get());
      ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
      ASSERT_EQ(delivered.batches.size(), 36);
      if (!lists) continue;
      for (size_t b = 0; b < 36; ++b) {
        const std::vector<std::string> lines =
            testing::Texts(layout, delivered.batches[b]);
        ASSERT_EQ(lines.size(), 2000);
        for (size_t i = 0; i < 2000; ++i) {
          const bool padding = b == 35 && i == 1999;
          if (!padding) {
            ASSERT_EQ(lines[i], of_lanes[i / 1000][b * 1000 + i % 1000]) << b << " " << i;
          }
        }
      }
    }
  }
}

TEST_F(LanesTest, WrongLanesAreRefused) {
  Pipeline pipeline(files_, testing::Columns(1), testing::Outputs(), PipelineOptions{});
  ReadPlan wrong = plan_;
  wrong.lane_of[3] = 2;
  EXPECT_FALSE(pipeline.Start(wrong, {}).ok());
  wrong = plan_;
  wrong.lane_of[3] = 1;
  EXPECT_FALSE(pipeline.Start(wrong, {}).ok());
  EXPECT_FALSE(pipeline.Start(plan_, {.open_windows = 1}).ok());
  // The second window of lane 0, which is needed last, comes before that of lane 1.
  wrong = plan_;
  std::swap(wrong.pieces[2], wrong.pieces[3]);
  std::swap(wrong.takes[2], wrong.takes[3]);
  wrong.lane_of = {0, 1, 0, 1};
  EXPECT_FALSE(pipeline.Start(wrong, {}).ok());
  wrong = plan_;
  wrong.lane_padding[1] = -1;
  EXPECT_FALSE(pipeline.Start(wrong, {}).ok());
  wrong = plan_;
  wrong.batch_edges.pop_back();
  EXPECT_FALSE(pipeline.Start(wrong, {}).ok());
}

}  // namespace
}  // namespace fastload
