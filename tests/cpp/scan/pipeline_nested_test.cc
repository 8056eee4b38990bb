// Tests of columns of lists: whatever the plan, the threads and the sizes of reads,
// batches hold the lists of the planned rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fastload/scan/pipeline.h"
#include "nested_files.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::AllPieces;
using testing::CutPlan;
using testing::Deliver;
using testing::Delivered;
using testing::NestedOutput;
using testing::NestedOutputs;
using testing::NestedRow;
using testing::PlanBuilder;

class PipelineNestedTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::vector<int64_t>>& row_groups) {
    for (size_t f = 0; f < row_groups.size(); ++f) {
      const std::string path = directory_.File("part-" + std::to_string(f) + ".parquet");
      testing::WriteNestedRows(path, static_cast<int64_t>(f), row_groups[f]);
      files_.push_back(testing::SpecOf(path));
    }
    pieces_ = AllPieces(files_);
  }

  void ExpectRows(const Delivered& delivered, const ReadPlan& plan,
                  const std::vector<NestedOutput>& outputs) const {
    ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
    const auto columns = testing::NestedColumns(files_.size());
    const Layout layout(columns, testing::SpecsOf(outputs));
    const auto expected = testing::PlannedRows(plan, files_);
    size_t first = 0;
    for (const Batch& batch : delivered.batches) {
      ASSERT_LE(first + static_cast<size_t>(batch.areas.rows), expected.size());
      for (size_t o = 0; o < outputs.size(); ++o) {
        const OutputSpec& spec = outputs[o].spec;
        const testing::NestedTexts texts(layout, static_cast<int32_t>(o), spec,
                                         columns[static_cast<size_t>(spec.columns[0])],
                                         batch);
        for (int64_t row = 0; row < batch.areas.rows; ++row) {
          const auto& id = expected[first + static_cast<size_t>(row)];
          ASSERT_EQ(texts(row), outputs[o].text(NestedRow(id.file, id.row, true)))
              << "output " << o << ", batch " << batch.index << ", row " << row;
        }
      }
      first += static_cast<size_t>(batch.areas.rows);
    }
    EXPECT_EQ(first, expected.size());
  }

  // Checks the plan with several numbers of threads, and with large and tiny reads.
  void Check(const ReadPlan& plan,
             const std::vector<NestedOutput>& outputs = NestedOutputs()) const {
    for (const int32_t threads : {0, 1, 2}) {
      Pipeline pipeline(files_, testing::NestedColumns(files_.size()),
                        testing::SpecsOf(outputs),
                        PipelineOptions{.threads = threads,
                                        .io_threads = threads,
                                        .batch_memory_bytes = 4 << 20,
                                        .fetch_memory_bytes = 4 << 20});
      for (const ScanOptions& options :
           {ScanOptions{}, ScanOptions{.fetch_bytes = 1, .segment_bytes = 300},
            ScanOptions{.open_windows = 5, .fetch_bytes = 9000, .segment_bytes = 4000}}) {
        SCOPED_TRACE("threads " + std::to_string(threads) + ", segments of " +
                     std::to_string(options.segment_bytes));
        const auto scan = pipeline.Start(plan, options).ValueOrDie();
        ExpectRows(Deliver(scan.get()), plan, outputs);
        if (HasFatalFailure()) return;
      }
    }
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  std::vector<Piece> pieces_;
};

class PipelineNestedSmallTest : public PipelineNestedTest {
 protected:
  PipelineNestedSmallTest() { Write({{700, 1, 350}, {0, 520}, {90}}); }
};

TEST_F(PipelineNestedSmallTest, InOrder) { Check(CutPlan(pieces_, 128, 64, false)); }

TEST_F(PipelineNestedSmallTest, InOrderWithBatchesAcrossWindows) {
  Check(CutPlan(pieces_, 97, 64, false));
}

TEST_F(PipelineNestedSmallTest, InOrderWithOneWindow) {
  Check(CutPlan(pieces_, 1 << 20, 333, false));
}

TEST_F(PipelineNestedSmallTest, ABatchOfManyWindows) {
  Check(CutPlan(pieces_, 50, 777, false));
}

TEST_F(PipelineNestedSmallTest, Shuffled) {
  std::mt19937 random(1);
  std::shuffle(pieces_.begin(), pieces_.end(), random);
  Check(CutPlan(pieces_, 415, 100, true));
}

TEST_F(PipelineNestedSmallTest, ShuffledBatchesOfManyWindows) {
  Check(CutPlan(pieces_, 110, 500, true));
}

TEST_F(PipelineNestedSmallTest, RowsLeftOutAndReadAgain) {
  Check(PlanBuilder(false)
            .Window({{0, 0, 10, 20}, {0, 0, 300, 310}})
            .Window({{0, 0, 650, 700}, {1, 1, 0, 5}})
            .Window({{1, 1, 400, 410}, {1, 1, 3, 4}, {1, 1, 3, 4}})
            .Window({{1, 1, 3, 4}, {0, 2, 349, 350}})
            .Build(16));
}

TEST_F(PipelineNestedSmallTest, TakesCutWindowsAndRepeatRows) {
  Check(PlanBuilder(true)
            .Window({{0, 0, 0, 700}}, {{690, 700}})
            .Window({{0, 1, 0, 1}, {1, 1, 100, 300}}, {{0, 50}, {70, 201}})
            .Window({{2, 0, 0, 90}}, {{0, 90}, {89, 90}, {89, 90}})
            .Build(37, /*padding=*/2));
}

TEST_F(PipelineNestedSmallTest, NoRows) { Check(PlanBuilder(false).Build(8)); }

// Each output alone, because a column without other outputs takes another path to its
// batches.
TEST_F(PipelineNestedSmallTest, SingleOutputs) {
  for (const bool shuffled : {false, true}) {
    const ReadPlan plan = CutPlan(pieces_, 600, 256, shuffled);
    for (const NestedOutput& output : NestedOutputs()) Check(plan, {output});
  }
}

// Without threads, a pass goes as far as Next() takes it. In order, elements may turn out
// to be damaged when later batches are filled, so the window is delivered as a whole.
TEST_F(PipelineNestedSmallTest, AShuffledBatchIsDeliveredBeforeLaterOnesAreFilled) {
  for (const NestedOutput& output : NestedOutputs()) {
    if (output.spec.kind != OutputKind::kRagged) continue;
    std::vector<OutputSpec> specs = testing::SpecsOf({output});
    specs.push_back({OutputKind::kRow, {}});
    for (const bool shuffled : {false, true}) {
      const ReadPlan plan = CutPlan(pieces_, 1 << 20, 10, shuffled);
      Pipeline pipeline(files_, testing::NestedColumns(files_.size()), specs,
                        PipelineOptions{.threads = 0,
                                        .io_threads = 0,
                                        .batch_memory_bytes = 4 << 20,
                                        .fetch_memory_bytes = 4 << 20});
      const auto scan = pipeline.Start(plan, {}).ValueOrDie();
      bool done = false;
      std::optional<Batch> first;
      while (!first) first = scan->Next(std::chrono::seconds(9), &done).ValueOrDie();
      const std::string waits = scan->Describe();
      EXPECT_EQ(waits.find("fill runs") != std::string::npos, shuffled) << waits;
    }
  }
}

TEST_F(PipelineNestedSmallTest, TheSecondPassAllocatesNothing) {
  Pipeline pipeline(files_, testing::NestedColumns(files_.size()),
                    testing::SpecsOf(NestedOutputs()),
                    PipelineOptions{.threads = 0,
                                    .io_threads = 0,
                                    .batch_memory_bytes = 4 << 20,
                                    .fetch_memory_bytes = 4 << 20});
  int64_t mapped[3] = {};
  for (int64_t& total : mapped) {
    const auto scan = pipeline.Start(CutPlan(pieces_, 300, 70, true), {}).ValueOrDie();
    bool done = false;
    while (!done) ASSERT_TRUE(scan->Next(std::chrono::seconds(1), &done).ok());
    total = pipeline.batch_memory().mapped_total + pipeline.fetch_memory().mapped_total;
  }
  EXPECT_EQ(mapped[1], mapped[0]);
  EXPECT_EQ(mapped[2], mapped[0]);
}

TEST_F(PipelineNestedSmallTest, NullListsAreErrorsWithTheirPlace) {
  for (const size_t column : {1, 2, 3, 4}) {
    for (const bool shuffled : {false, true}) {
      auto columns = testing::NestedColumns(files_.size());
      columns[column].null_lists = false;
      const auto kind = column == 4 ? OutputKind::kList : OutputKind::kRagged;
      Pipeline pipeline(files_, columns, {{kind, {static_cast<int32_t>(column)}}},
                        PipelineOptions{.threads = 1, .io_threads = 1});
      const auto scan =
          pipeline.Start(CutPlan({{0, 2, 0, 350}}, 350, 50, shuffled), {}).ValueOrDie();
      const Status status = Deliver(scan.get()).status;
      EXPECT_EQ(KindOf(status), ErrorKind::kNullValue) << status.ToString();
      const std::string place =
          "part-0.parquet, row group 2, column `" + columns[column].name + "`";
      EXPECT_NE(status.ToString().find(place), std::string::npos) << status.ToString();
    }
  }
}

// Windows with more rows than a bucket of the shuffle.
class PipelineNestedShuffleTest : public PipelineNestedTest {
 protected:
  PipelineNestedShuffleTest() { Write({{25'000, 16'000}}); }
};

TEST_F(PipelineNestedShuffleTest, OneWindow) {
  Check(CutPlan({{0, 1, 0, 16'000}, {0, 0, 0, 25'000}}, 41'000, 7000, true));
}

TEST_F(PipelineNestedShuffleTest, TakesAndBatchesAcrossBucketsAndWindows) {
  Check(PlanBuilder(true)
            .Window({{0, 1, 1000, 16'000}}, {{100, 200}, {10'000, 15'000}})
            .Window({{0, 0, 0, 25'000}, {0, 1, 0, 10'000}}, {{0, 9990},
                                                             {9995, 10'300},
                                                             {34'000, 35'000},
                                                             {34'999, 35'000},
                                                             {34'999, 35'000}})
            .Build(3001, /*padding=*/2));
}

}  // namespace
}  // namespace fastload
