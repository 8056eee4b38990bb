// Tests of values: whatever the plan, the threads and the sizes of reads, batches hold
// the planned rows.
#include "fastload/scan/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "passes.h"

namespace fastload {
namespace {

using testing::AllPieces;
using testing::CutPlan;
using testing::Deliver;
using testing::Delivered;
using testing::PlanBuilder;

struct Threads {
  int32_t cpu;
  int32_t io;
};
constexpr Threads kThreads[] = {{0, 0}, {1, 1}, {4, 2}, {7, 3}, {0, 2}, {2, 0}};

class PipelineTest : public ::testing::Test {
 protected:
  PipelineTest() {
    const std::vector<std::vector<int64_t>> row_groups = {{700, 1, 350}, {0, 520}, {90}};
    for (size_t f = 0; f < row_groups.size(); ++f) {
      const std::string path = directory_.File("part-" + std::to_string(f) + ".parquet");
      testing::WriteRows(path, static_cast<int64_t>(f), row_groups[f]);
      files_.push_back(testing::SpecOf(path));
    }
    pieces_ = AllPieces(files_);
  }

  std::unique_ptr<Pipeline> Make(Threads threads) const {
    return Make(threads, testing::Outputs());
  }
  std::unique_ptr<Pipeline> Make(Threads threads,
                                 const std::vector<OutputSpec>& outputs) const {
    return std::make_unique<Pipeline>(files_, testing::Columns(files_.size()), outputs,
                                      PipelineOptions{.threads = threads.cpu,
                                                      .io_threads = threads.io,
                                                      .batch_memory_bytes = 4 << 20,
                                                      .fetch_memory_bytes = 4 << 20});
  }

  void ExpectRows(const Delivered& delivered, const ReadPlan& plan,
                  const std::vector<std::string>& expected) const {
    ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
    size_t row = 0;
    int64_t index = 0;
    for (const Batch& batch : delivered.batches) {
      EXPECT_EQ(batch.index, index++);
      EXPECT_EQ(batch.areas.rows, std::min<int64_t>(plan.batch_rows, plan.rows - row));
      for (const std::string& line : testing::Texts(layout_, batch)) {
        ASSERT_LT(row, expected.size());
        ASSERT_EQ(line, expected[row]) << "row " << row;
        ++row;
      }
    }
    EXPECT_EQ(row, expected.size());
  }

  // Checks the plan with all numbers of threads, and with large and tiny reads.
  void Check(const ReadPlan& plan) const {
    const std::vector<std::string> expected = testing::PlannedTexts(plan, files_);
    for (const Threads threads : kThreads) {
      const auto pipeline = Make(threads);
      for (const ScanOptions& options :
           {ScanOptions{}, ScanOptions{.fetch_bytes = 1, .segment_bytes = 300},
            ScanOptions{.open_windows = 5, .fetch_bytes = 9000, .segment_bytes = 4000}}) {
        SCOPED_TRACE("threads " + std::to_string(threads.cpu) + ", io " +
                     std::to_string(threads.io) + ", segments of " +
                     std::to_string(options.segment_bytes));
        const auto scan = pipeline->Start(plan, options).ValueOrDie();
        ExpectRows(Deliver(scan.get()), plan, expected);
        if (HasFatalFailure()) return;
      }
    }
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  std::vector<Piece> pieces_;
  Layout layout_{testing::Columns(3), testing::Outputs()};
};

TEST_F(PipelineTest, InOrder) { Check(CutPlan(pieces_, 128, 64, false)); }

TEST_F(PipelineTest, InOrderWithBatchesAcrossWindows) {
  Check(CutPlan(pieces_, 97, 64, false));
}

TEST_F(PipelineTest, InOrderWithOneWindow) {
  Check(CutPlan(pieces_, 1 << 20, 333, false));
}

TEST_F(PipelineTest, ABatchOfManyWindows) { Check(CutPlan(pieces_, 50, 777, false)); }

TEST_F(PipelineTest, Shuffled) {
  std::mt19937 random(1);
  std::shuffle(pieces_.begin(), pieces_.end(), random);
  Check(CutPlan(pieces_, 415, 100, true));
}

TEST_F(PipelineTest, ShuffledBatchesOfManyWindows) {
  Check(CutPlan(pieces_, 110, 500, true));
}

TEST_F(PipelineTest, RowsLeftOutAndReadAgain) {
  // Rows between pieces are skipped; going back begins the column chunk again.
  const auto plan = PlanBuilder(false)
                        .Window({{0, 0, 10, 20}, {0, 0, 300, 310}})
                        .Window({{0, 0, 650, 700}, {1, 1, 0, 5}})
                        .Window({{1, 1, 400, 410}, {1, 1, 3, 4}, {1, 1, 3, 4}})
                        .Window({{1, 1, 3, 4}, {0, 2, 349, 350}})
                        .Build(16);
  Check(plan);
}

TEST_F(PipelineTest, TakesCutWindowsAndRepeatRows) {
  const auto plan = PlanBuilder(true)
                        .Window({{0, 0, 0, 700}}, {{690, 700}})
                        .Window({{0, 1, 0, 1}, {1, 1, 100, 300}}, {{0, 50}, {70, 201}})
                        .Window({{2, 0, 0, 90}}, {{0, 90}, {89, 90}, {89, 90}})
                        .Build(37, /*padding=*/2);
  Check(plan);
}

TEST_F(PipelineTest, PaddingInOrder) {
  const auto plan = PlanBuilder(false)
                        .Window({{2, 0, 0, 89}})
                        .Window({{2, 0, 89, 90}, {2, 0, 89, 90}, {2, 0, 89, 90}})
                        .Build(30, /*padding=*/2);
  Check(plan);
}

TEST_F(PipelineTest, SegmentsSmallerThanPageHeaders) {
  const ReadPlan plan = CutPlan({{0, 0, 0, 300}}, 100, 64, true);
  const auto pipeline = Make({2, 1});
  const auto scan = pipeline->Start(plan, {.segment_bytes = 7}).ValueOrDie();
  ExpectRows(Deliver(scan.get()), plan, testing::PlannedTexts(plan, files_));
}

TEST_F(PipelineTest, NoRows) { Check(PlanBuilder(false).Build(8)); }

TEST_F(PipelineTest, SeveralPassesAtOnce) {
  const ReadPlan in_order = CutPlan(pieces_, 200, 90, false);
  const ReadPlan shuffled = CutPlan(pieces_, 300, 70, true);
  for (const Threads threads : kThreads) {
    const auto pipeline = Make(threads);
    std::vector<Delivered> delivered(4);
    {
      std::vector<std::jthread> consumers;
      for (size_t i = 0; i < delivered.size(); ++i) {
        consumers.emplace_back([&, i] {
          const auto scan =
              pipeline->Start(i % 2 == 0 ? in_order : shuffled, {.segment_bytes = 1000})
                  .ValueOrDie();
          delivered[i] = Deliver(scan.get());
        });
      }
    }
    for (size_t i = 0; i < delivered.size(); ++i) {
      const ReadPlan& plan = i % 2 == 0 ? in_order : shuffled;
      ExpectRows(delivered[i], plan, testing::PlannedTexts(plan, files_));
    }
  }
}

TEST_F(PipelineTest, ConsumersShareAPass) {
  const auto pipeline = Make({3, 1});
  const auto scan = pipeline->Start(CutPlan(pieces_, 200, 20, false), {}).ValueOrDie();
  std::vector<Delivered> delivered(3);
  {
    std::vector<std::jthread> consumers;
    for (Delivered& mine : delivered) {
      consumers.emplace_back([&] { mine = Deliver(scan.get()); });
    }
  }
  std::set<int64_t> indices;
  for (const Delivered& mine : delivered) {
    EXPECT_TRUE(mine.status.ok());
    for (const Batch& batch : mine.batches) indices.insert(batch.index);
  }
  EXPECT_EQ(indices.size(), 84);
}

TEST_F(PipelineTest, ReadsOnlyWhatColumnsNeed) {
  const auto pipeline = Make({2, 1}, {{OutputKind::kColumn, {0}}});
  const auto scan = pipeline->Start(CutPlan(pieces_, 200, 100, false), {}).ValueOrDie();
  EXPECT_TRUE(Deliver(scan.get()).status.ok());
  int64_t bytes = 0;
  for (const Piece& piece : pieces_) {
    const FileSpec& file = files_[static_cast<size_t>(piece.file)];
    bytes += ChunkRange(file, static_cast<int32_t>(piece.row_group), 0)->bytes;
  }
  EXPECT_EQ(pipeline->counters().read_bytes, bytes);
  EXPECT_EQ(pipeline->counters().rows, 1661);
  EXPECT_EQ(pipeline->counters().decoded_values, 1661);
}

TEST_F(PipelineTest, ProvenanceAloneReadsNothing) {
  const std::vector<OutputSpec> outputs = {{OutputKind::kRow, {}}};
  const auto pipeline = Make({2, 1}, outputs);
  const auto scan =
      pipeline->Start(CutPlan(pieces_, 1 << 20, 1 << 20, false), {}).ValueOrDie();
  const Delivered delivered = Deliver(scan.get());
  ASSERT_EQ(delivered.batches.size(), 1);
  const auto* rows = reinterpret_cast<const int64_t*>(delivered.batches[0].block->data());
  EXPECT_EQ(rows[1050], 1050);
  EXPECT_EQ(rows[1051], 0);
  EXPECT_EQ(pipeline->counters().read_bytes, 0);
}

TEST_F(PipelineTest, TheSecondPassAllocatesNothing) {
  const auto pipeline = Make({0, 0});
  int64_t mapped[3] = {};
  for (int64_t& total : mapped) {
    const auto scan = pipeline->Start(CutPlan(pieces_, 300, 70, true), {}).ValueOrDie();
    bool done = false;
    while (!done) ASSERT_TRUE(scan->Next(std::chrono::seconds(1), &done).ok());
    total = pipeline->batch_memory().mapped_total + pipeline->fetch_memory().mapped_total;
  }
  EXPECT_EQ(mapped[1], mapped[0]);
  EXPECT_EQ(mapped[2], mapped[0]);
}

TEST_F(PipelineTest, RefusesPlansThatDisagree) {
  const auto pipeline = Make({1, 1});
  const ReadPlan good = CutPlan(pieces_, 300, 70, false);
  std::vector<ReadPlan> bad(11, good);
  bad[0].batch_rows = 0;
  bad[1].rows += 1;
  bad[2].keys.pop_back();
  bad[3].pieces[0].file = 3;
  bad[4].pieces[0].row_group = 3;
  bad[5].takes[0].stop -= 1;
  bad[6].first_take[1] = bad[6].first_take[2];
  bad[7].first_piece[1] = 0;
  bad[8].first_piece[0] = 1;
  bad[9].padding = -1;
  const std::vector<uint16_t> copies(1051, 1);
  bad[10].copies = copies;
  bad[10].pieces.back().copies = 0;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_TRUE(pipeline->Start(bad[i], {}).status().IsInvalid()) << i;
  }
  EXPECT_TRUE(pipeline->Start(good, {.segment_bytes = 0}).status().IsInvalid());
  EXPECT_TRUE(pipeline->Start(good, {.open_windows = 0}).status().IsInvalid());
  EXPECT_TRUE(pipeline->Start(good, {}).ok());
}

}  // namespace
}  // namespace fastload
