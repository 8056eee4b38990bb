// A pass that waits tells what it waits for, by the names of the conditions.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fastload/scan/pipeline.h"
#include "passes.h"

namespace fastload {
namespace {

class ScanDescribeTest : public ::testing::Test {
 protected:
  ScanDescribeTest() {
    const std::string path = directory_.File("part.parquet");
    testing::WriteRows(path, 0, {400});
    files_ = {testing::SpecOf(path)};
    plan_ = testing::CutPlan(testing::AllPieces(files_), 200, 40, false);
  }

  // Without threads, a pass goes as far as Next() takes it.
  std::unique_ptr<Pipeline> Make(PipelineOptions options) const {
    options.threads = 0;
    options.io_threads = 0;
    return std::make_unique<Pipeline>(files_, testing::Columns(1), testing::Outputs(),
                                      std::move(options));
  }

  // Does all the work there is, and tells what the pass waits for.
  static std::string DescribeStuck(Scan* scan) {
    bool done = false;
    for (int i = 0; i < 100; ++i) {
      const auto batch = scan->Next(std::chrono::milliseconds(0), &done);
      EXPECT_TRUE(batch.ok() && !*batch && !done) << "Expected a pass that is stuck";
    }
    return scan->Describe();
  }

  static void ExpectIn(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  ReadPlan plan_;
};

TEST_F(ScanDescribeTest, WorkThatHasNotBegun) {
  const auto pipeline = Make({});
  const auto scan = pipeline->Start(plan_, {.open_windows = 1}).ValueOrDie();
  const std::string text = scan->Describe();
  ExpectIn("delivery: batch 0 of 10 waits for: window 0 filled (0 of 40 rows are)", text);
  ExpectIn("1 of 1 windows open, 0 ahead", text);
  ExpectIn("window 0: is prepared", text);
}

TEST_F(ScanDescribeTest, Streams) {
  files_[0].remote = true;
  const auto pipeline = Make({.remote = std::make_shared<RemoteQueue>()});
  const auto scan = pipeline->Start(plan_, {.open_windows = 1}).ValueOrDie();
  const std::string text = DescribeStuck(scan.get());
  ExpectIn("waits for: streams arrived (1 to come)", text);
  EXPECT_EQ(text.find("fetch budget"), std::string::npos) << text;
}

TEST_F(ScanDescribeTest, TheFetchBudget) {
  files_[0].remote = true;
  const auto pipeline = Make({.remote = std::make_shared<RemoteQueue>()});
  const auto scan =
      pipeline->Start(plan_, {.open_windows = 1, .fetch_bytes = 1}).ValueOrDie();
  const std::string text = DescribeStuck(scan.get());
  ExpectIn("waits for: fetch budget, streams arrived", text);
  ExpectIn("waits for: streams arrived (1 to come)", text);
  ExpectIn("window 1 waits for: earlier windows delivered", text);
}

TEST_F(ScanDescribeTest, TheEnd) {
  const auto pipeline = Make({});
  const auto scan = pipeline->Start(plan_, {}).ValueOrDie();
  EXPECT_EQ(testing::Deliver(scan.get()).batches.size(), 10);
  ExpectIn("delivery: all batches are handed out", scan->Describe());
  pipeline->Close();
  EXPECT_EQ(scan->Describe(), "closed\n");
}

}  // namespace
}  // namespace fastload
