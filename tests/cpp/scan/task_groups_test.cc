// Tests of the groups in which short tasks run, and of passes over many short columns.
#include "fastload/scan/task_groups.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "fastload/scan/pipeline.h"
#include "fastload/scan/window_setup.h"
#include "parquet/arrow/writer.h"
#include "passes.h"

namespace fastload {
namespace {

constexpr int kWideColumns = 300;
constexpr int64_t kWideGroupRows = 120;
constexpr int64_t kWideWindows = 6;
constexpr int64_t kWideRows = kWideGroupRows * kWideWindows;

int64_t ValueAt(int64_t row, int column) { return row * 1000 + column; }

class TaskGroupsTest : public ::testing::Test {
 protected:
  TaskGroupsTest() {
    path_ = directory_.File("wide.parquet");
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (int c = 0; c < kWideColumns; ++c) {
      arrow::Int64Builder builder;
      for (int64_t row = 0; row < kWideRows; ++row) {
        builder.Append(ValueAt(row, c)).ok();
      }
      fields.push_back(arrow::field("c" + std::to_string(c), arrow::int64(), false));
      arrays.push_back(*builder.Finish());
      ColumnSpec spec;
      spec.name = "c" + std::to_string(c);
      spec.leaves = {c};
      spec.dtype = DType::kInt64;
      columns_.push_back(std::move(spec));
      outputs_.push_back({OutputKind::kColumn, {c}});
    }
    auto properties = parquet::WriterProperties::Builder()
                          .compression(parquet::Compression::SNAPPY)
                          ->disable_dictionary()
                          ->build();
    auto sink = *arrow::io::FileOutputStream::Open(path_);
    const auto table = arrow::Table::Make(arrow::schema(fields), arrays);
    PARQUET_THROW_NOT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(),
                                                    sink, kWideGroupRows, properties));
    PARQUET_THROW_NOT_OK(sink->Close());
    files_ = {testing::SpecOf(path_)};
  }

  std::unique_ptr<Pipeline> Make(int32_t threads) const {
    return std::make_unique<Pipeline>(files_, columns_, outputs_,
                                      PipelineOptions{.threads = threads,
                                                      .io_threads = 1,
                                                      .batch_memory_bytes = 1 << 22,
                                                      .fetch_memory_bytes = 1 << 22});
  }

  // Expects the batches to hold the first rows of the file.
  void ExpectRows(const std::vector<Batch>& batches) const {
    const Layout layout(columns_, outputs_);
    int64_t first = 0;
    for (const Batch& batch : batches) {
      for (int c = 0; c < kWideColumns; ++c) {
        const Layout::Slot& slot = layout.slot(c);
        const uint8_t* at = Layout::Address(batch.block->data(), batch.areas, slot);
        for (int64_t row = 0; row < batch.areas.rows; ++row) {
          int64_t value = 0;
          std::memcpy(&value, at + row * slot.stride, sizeof(value));
          ASSERT_EQ(value, ValueAt(first + row, c)) << "column " << c;
        }
      }
      first += batch.areas.rows;
    }
  }

  testing::TemporaryDirectory directory_;
  std::string path_;
  std::vector<FileSpec> files_;
  std::vector<ColumnSpec> columns_;
  std::vector<OutputSpec> outputs_;
};

// The pass whose tasks are grouped, on two threads. The lanes take turns of a window
// each.
class GroupsOfAPass : public TaskGroupsTest {
 protected:
  explicit GroupsOfAPass(int32_t lanes = 1)
      : dataset_(files_, nullptr, columns_, outputs_, {}, {}, 1 << 20, false),
        cpu_(MakeThreadPool("groups", 2)),
        pass_(&dataset_, cpu_.get(), {}, nullptr, nullptr, Plan(lanes), {}, 0) {}

  ReadPlan Plan(int32_t lanes) const {
    ReadPlan plan = testing::CutPlan(testing::AllPieces(files_), kWideGroupRows,
                                     kWideGroupRows, false);
    if (lanes == 1) return plan;
    plan.batch_rows *= lanes;
    plan.lane_padding.assign(static_cast<size_t>(lanes), 0);
    plan.batch_edges = {0};
    for (int32_t window = 0; window < kWideWindows; ++window) {
      plan.lane_of.push_back(window % lanes);
      plan.batch_edges.push_back(plan.batch_edges.back() + kWideGroupRows);
    }
    return plan;
  }

  std::shared_ptr<Window> WindowOf(int64_t index) {
    auto window = std::make_shared<Window>();
    window->index = index;
    SetUpWindow(pass_, window.get());
    return window;
  }

  Dataset dataset_;
  std::unique_ptr<Executor> cpu_;
  Pass pass_;
};

TEST_F(GroupsOfAPass, SmallTasksShareOneInTheirOrder) {
  std::vector<ReadyTask> ready;
  for (const auto& window : {WindowOf(0), WindowOf(1)}) {
    for (int32_t unit = 0; unit < kWideColumns; ++unit) {
      ready.push_back({window, {.unit = unit}});
    }
  }
  const auto groups = GroupTasks(pass_, ready);
  size_t next = 0;
  size_t most = 0;
  for (const TaskGroup& group : groups) {
    ASSERT_FALSE(group.tasks.empty());
    most = std::max(most, group.tasks.size());
    for (const UnitTask& task : group.tasks) {
      EXPECT_EQ(group.window, ready[next].window);
      EXPECT_EQ(task.unit, ready[next++].task.unit);
    }
  }
  EXPECT_EQ(next, ready.size());
  EXPECT_EQ(most, 16);
}

TEST_F(GroupsOfAPass, EachThreadHasSeveral) {
  std::vector<ReadyTask> ready;
  const auto window = WindowOf(0);
  for (int32_t unit = 0; unit < 24; ++unit) ready.push_back({window, {.unit = unit}});
  EXPECT_EQ(GroupTasks(pass_, ready).size(), 8);
  ready.resize(7);
  EXPECT_EQ(GroupTasks(pass_, ready).size(), 7);
  EXPECT_TRUE(GroupTasks(pass_, {}).empty());
}

class GroupsOfThreeLanes : public GroupsOfAPass {
 protected:
  GroupsOfThreeLanes() : GroupsOfAPass(3) {}
};

TEST_F(GroupsOfThreeLanes, WindowsOfAllLanesTogetherHaveSeveralForEachThread) {
  std::vector<ReadyTask> ready;
  const auto window = WindowOf(0);
  for (int32_t unit = 0; unit < 24; ++unit) ready.push_back({window, {.unit = unit}});
  EXPECT_EQ(GroupTasks(pass_, ready).size(), 3);
}

TEST_F(GroupsOfAPass, LargeTasksRunAlone) {
  std::vector<ReadyTask> ready;
  const auto window = WindowOf(0);
  for (int32_t unit = 0; unit < 200; ++unit) ready.push_back({window, {.unit = unit}});
  window->rows = (1 << 20) / 8 / 4;  // four columns are 1 MiB
  EXPECT_EQ(GroupTasks(pass_, ready).size(), 50);
  window->rows = 1 << 20;
  EXPECT_EQ(GroupTasks(pass_, ready).size(), 200);
}

// Windows end within row groups, so that a group leaves cursors of many columns.
TEST_F(TaskGroupsTest, PassesDeliverAllRows) {
  for (const int32_t threads : {0, 1, 2, 16}) {
    for (const int64_t window_rows : {50, 120, 500}) {
      const auto pipeline = Make(threads);
      const auto plan =
          testing::CutPlan(testing::AllPieces(files_), window_rows, 70, false);
      for (const int64_t fetch_bytes : {20'000, 1 << 22}) {
        const auto scan =
            pipeline->Start(plan, {.fetch_bytes = fetch_bytes}).ValueOrDie();
        const auto delivered = testing::Deliver(scan.get());
        ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
        ASSERT_EQ(delivered.batches.size(), (kWideRows + 69) / 70);
        ExpectRows(delivered.batches);
      }
    }
  }
}

TEST_F(TaskGroupsTest, AFailureInAGroupIsOfItsColumn) {
  constexpr int kDamaged = 137;
  constexpr int64_t kWindow = 3;
  const ByteRange range = *ChunkRange(files_[0], kWindow, kDamaged);
  testing::Overwrite(path_, range.offset, std::string(16, '\xff'));
  files_ = {testing::SpecOf(path_)};
  const auto plan =
      testing::CutPlan(testing::AllPieces(files_), kWideGroupRows, kWideGroupRows, false);
  for (const int32_t threads : {0, 1, 4}) {
    const auto pipeline = Make(threads);
    const auto scan = pipeline->Start(plan, {}).ValueOrDie();
    const auto delivered = testing::Deliver(scan.get());
    EXPECT_EQ(delivered.batches.size(), kWindow);
    ExpectRows(delivered.batches);
    EXPECT_EQ(KindOf(delivered.status), ErrorKind::kCorruptFile);
    EXPECT_NE(delivered.status.message().find("row group 3, column `c137`"),
              std::string::npos)
        << delivered.status.message();
  }
}

TEST_F(TaskGroupsTest, APassMayCloseWhileGroupsAreQueued) {
  std::mt19937 random(4);
  const auto plan = testing::CutPlan(testing::AllPieces(files_), 100, 40, false);
  for (int round = 0; round < 60; ++round) {
    const auto pipeline = Make(static_cast<int32_t>(random() % 4));
    auto scan = pipeline->Start(plan, {.open_windows = 3}).ValueOrDie();
    const auto delivered = testing::Deliver(scan.get(), random() % 3);
    ExpectRows(delivered.batches);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    if (round % 2 == 0) scan->Close();
    if (round % 3 == 0) pipeline->Close();
    scan.reset();
    pipeline->Close();
    EXPECT_EQ(pipeline->fetch_memory().used_bytes, 0);
  }
}

}  // namespace
}  // namespace fastload
