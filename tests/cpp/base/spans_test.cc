#include "fastload/base/spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "passes.h"

namespace fastload {
namespace {

using testing::AllPieces;
using testing::CutPlan;

TEST(Spans, AreKeptUpToACapacityWhileOn) {
  SpanRecorder spans;
  spans.Add(Stage::kRead, 1, 2, {});
  EXPECT_FALSE(spans.on());
  spans.Start(2);
  for (int64_t i = 0; i < 5; ++i) spans.Add(Stage::kRead, i, i + 1, {.index = i});
  const auto recorded = spans.Stop();
  ASSERT_EQ(recorded.spans.size(), 2);
  EXPECT_EQ(recorded.spans[1].subject.index, 1);
  EXPECT_EQ(recorded.dropped, 3);
  EXPECT_TRUE(spans.Stop().spans.empty());
}

TEST(Spans, OfAPassCoverItsStages) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("part.parquet");
  testing::WriteRows(path, 0, {300, 200});
  const FileSpec file = testing::SpecOf(path);
  const ReadPlan plan = CutPlan(AllPieces({file}), 150, 40, /*shuffled=*/true);
  for (const int32_t threads : {0, 3}) {
    Pipeline pipeline({file}, testing::Columns(1), testing::Outputs(),
                      {.threads = threads, .io_threads = threads});
    pipeline.StartSpans(10'000);
    const auto scan = *pipeline.Start(plan, {});
    const auto delivered = testing::Deliver(scan.get());
    ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
    scan->Close();
    pipeline.Close();
    const auto recorded = pipeline.StopSpans();
    EXPECT_EQ(recorded.dropped, 0);
    std::set<Stage> stages;
    std::set<int64_t> prepared;
    const auto units = static_cast<int32_t>(pipeline.UnitNames().size());
    for (const Span& span : recorded.spans) {
      stages.insert(span.stage);
      EXPECT_LE(span.start_ns, span.end_ns);
      EXPECT_GT(span.thread, 0);
      EXPECT_LT(span.subject.unit, units);
      EXPECT_EQ(span.subject.unit >= 0, span.stage == Stage::kStage ||
                                            span.stage == Stage::kCount ||
                                            span.stage == Stage::kFill);
      if (span.stage == Stage::kPrepare) prepared.insert(span.subject.index);
    }
    for (const Stage stage :
         {Stage::kPrepare, Stage::kFill, Stage::kMerge, Stage::kWait}) {
      EXPECT_TRUE(stages.contains(stage)) << static_cast<int>(stage);
    }
    EXPECT_EQ(prepared.size(), static_cast<size_t>(plan.windows()));
  }
}

}  // namespace
}  // namespace fastload
