// Tests of errors: batches before an error are delivered, and errors name their location.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fastload/scan/pipeline.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::AllPieces;
using testing::CutPlan;
using testing::Deliver;
using testing::Delivered;

constexpr int64_t kGroupRows = 100;
constexpr int32_t kThreadCounts[] = {0, 1, 4};

class PipelineErrorTest : public ::testing::Test {
 protected:
  PipelineErrorTest() {
    testing::WriteRows(path_, 0, std::vector<int64_t>(6, kGroupRows));
    columns_ = testing::Columns(1);
  }

  std::unique_ptr<Pipeline> Make(int32_t threads) const {
    return std::make_unique<Pipeline>(
        std::vector<FileSpec>{spec_}, columns_, testing::Outputs(),
        PipelineOptions{.threads = threads, .io_threads = threads});
  }

  // Expects that the pass delivers the rows before `failing_row` and fails there, on
  // every call.
  void ExpectFailure(const ReadPlan& plan, int64_t failing_row, ErrorKind kind,
                     const std::string& message) const {
    for (const int32_t threads : kThreadCounts) {
      const auto pipeline = Make(threads);
      {
        const auto scan =
            pipeline->Start(plan, {.open_windows = 3, .segment_bytes = 500}).ValueOrDie();
        const Delivered delivered = Deliver(scan.get());
        EXPECT_EQ(delivered.batches.size(),
                  static_cast<size_t>(failing_row / plan.batch_rows));
        EXPECT_EQ(KindOf(delivered.status), kind) << delivered.status.ToString();
        EXPECT_NE(delivered.status.message().find(message), std::string::npos)
            << delivered.status.message();
        const std::string place = " - at " + path_;
        EXPECT_NE(delivered.status.message().find(place), std::string::npos);
        const Layout layout(columns_, testing::Outputs());
        const auto expected = testing::PlannedTexts(plan, {spec_});
        size_t row = 0;
        for (const Batch& batch : delivered.batches) {
          for (const auto& line : testing::Texts(layout, batch)) {
            ASSERT_EQ(line, expected[row++]);
          }
        }
        for (int again = 0; again < 2; ++again) {
          const Delivered more = Deliver(scan.get());
          EXPECT_TRUE(more.batches.empty());
          EXPECT_EQ(more.status.message(), delivered.status.message());
          EXPECT_EQ(KindOf(more.status), kind);
        }
      }
      pipeline->Close();
      EXPECT_EQ(pipeline->batch_memory().used_bytes, 0);
      EXPECT_EQ(pipeline->fetch_memory().used_bytes, 0);
    }
  }

  // Makes the first page header of a column chunk unreadable.
  void Damage(int32_t row_group, int32_t leaf) {
    const int64_t offset = ChunkRange(testing::SpecOf(path_), row_group, leaf)->offset;
    testing::Overwrite(path_, offset, std::string(16, '\xFF'));
    spec_ = testing::SpecOf(path_);
  }

  ReadPlan Plan(int64_t window_rows, int64_t batch_rows, bool shuffled = false) {
    if (!spec_.footer) spec_ = testing::SpecOf(path_);
    return CutPlan(AllPieces({spec_}), window_rows, batch_rows, shuffled);
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("part.parquet");
  FileSpec spec_;
  std::vector<ColumnSpec> columns_;
};

TEST_F(PipelineErrorTest, DamageEndsThePassInItsWindow) {
  Damage(3, 1);
  const std::string place = path_ + ", row group 3, column `half`";
  ExpectFailure(Plan(100, 20), 300, ErrorKind::kCorruptFile, place);
  ExpectFailure(Plan(50, 20, true), 300, ErrorKind::kCorruptFile, place);
  // A batch of several windows fails when one of the windows fails.
  ExpectFailure(Plan(60, 25), 300, ErrorKind::kCorruptFile, place);
  ExpectFailure(Plan(100, 600), 0, ErrorKind::kCorruptFile, place);
}

TEST_F(PipelineErrorTest, DamageIsToldByWindowAndRowGroup) {
  Damage(3, 1);
  for (const int32_t threads : kThreadCounts) {
    const auto pipeline = Make(threads);
    const auto scan = pipeline->Start(Plan(50, 20, true), {}).ValueOrDie();
    EXPECT_FALSE(scan->damage());
    EXPECT_EQ(Deliver(scan.get(), 15).batches.size(), 15);
    EXPECT_FALSE(scan->damage());
    Deliver(scan.get());
    const auto damage = scan->damage();
    ASSERT_TRUE(damage);
    EXPECT_EQ(damage->window, 6);
    EXPECT_EQ(damage->row_group.file, 0);
    EXPECT_EQ(damage->row_group.row_group, 3);
  }
}

TEST_F(PipelineErrorTest, OnlyDamageIsTold) {
  columns_[1].fill.reset();
  const ReadPlan plan = Plan(50, 20);
  const auto pipeline = Make(1);
  const auto scan = pipeline->Start(plan, {}).ValueOrDie();
  EXPECT_EQ(KindOf(Deliver(scan.get()).status), ErrorKind::kNullValue);
  EXPECT_FALSE(scan->damage());
}

TEST_F(PipelineErrorTest, SubstitutesAreNotReal) {
  Damage(1, 0);
  for (const bool shuffled : {false, true}) {
    const ReadPlan plan = testing::PlanBuilder(shuffled)
                              .Window({{0, 0, 0, 60},
                                       {0, 2, 0, 30, true},
                                       {0, 2, 0, 20, true},
                                       {0, 2, 0, 100},
                                       {0, 0, 7, 8}})
                              .Window({{0, 3, 10, 20}})
                              .Build(25, /*padding=*/11);
    for (const int32_t threads : kThreadCounts) {
      const auto pipeline = Make(threads);
      const auto scan = pipeline->Start(plan, {}).ValueOrDie();
      const Delivered delivered = Deliver(scan.get());
      ASSERT_TRUE(delivered.status.ok()) << delivered.status.ToString();
      const Layout layout(columns_, testing::Outputs());
      std::vector<std::string> texts;
      for (const Batch& batch : delivered.batches) {
        for (auto& line : testing::Texts(layout, batch)) texts.push_back(std::move(line));
      }
      EXPECT_EQ(texts, testing::PlannedTexts(plan, {spec_}));
    }
  }
}

TEST_F(PipelineErrorTest, DamageToStrings) {
  Damage(2, 2);
  ExpectFailure(Plan(100, 50, true), 200, ErrorKind::kCorruptFile,
                "row group 2, column `text`");
}

TEST_F(PipelineErrorTest, DamageInAStackNamesTheColumn) {
  Damage(0, 4 + 17);
  ExpectFailure(Plan(100, 50, true), 0, ErrorKind::kCorruptFile,
                "row group 0, column `s17`");
}

TEST_F(PipelineErrorTest, TheEarliestWindowWins) {
  Damage(4, 0);
  Damage(1, 3);
  ExpectFailure(Plan(100, 100), 100, ErrorKind::kCorruptFile,
                "row group 1, column `flag`");
}

TEST_F(PipelineErrorTest, ANullWithoutFill) {
  columns_[1].fill.reset();
  // Row 3 is null, in the first page.
  ExpectFailure(Plan(100, 10), 0, ErrorKind::kNullValue,
                "row group 0, column `half`, page 0");
}

TEST_F(PipelineErrorTest, MoreRowsThanTheRowGroupHas) {
  spec_ = testing::SpecOf(path_);
  ReadPlan plan = Plan(100, 50);
  plan.pieces[2].stop += 50;
  plan.takes[2].stop += 50;
  plan.rows += 50;
  const auto pipeline = Make(2);
  const auto scan = pipeline->Start(plan, {}).ValueOrDie();
  const Delivered delivered = Deliver(scan.get());
  EXPECT_EQ(delivered.batches.size(), 4);
  EXPECT_EQ(KindOf(delivered.status), ErrorKind::kCorruptFile);
}

TEST_F(PipelineErrorTest, AChangedFile) {
  const ReadPlan plan = Plan(100, 50);
  testing::SetModifiedNs(path_, spec_.mtime_ns + 1);
  ExpectFailure(plan, 0, ErrorKind::kSourceChanged, "as its footer was read");
}

TEST_F(PipelineErrorTest, AMissingFile) {
  const ReadPlan plan = Plan(100, 50);
  std::filesystem::remove(path_);
  ExpectFailure(plan, 0, ErrorKind::kSourceChanged, "No such file or directory");
}

}  // namespace
}  // namespace fastload
