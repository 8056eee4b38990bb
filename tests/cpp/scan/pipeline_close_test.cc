// Tests of ends: passes and pipelines that are closed or dropped at any moment leave
// nothing behind.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fastload/scan/pipeline.h"
#include "faults/servers.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::CutPlan;
using testing::Deliver;
using testing::Delivered;

class PipelineCloseTest : public ::testing::Test {
 protected:
  PipelineCloseTest() {
    const std::string path = directory_.File("part.parquet");
    testing::WriteRows(path, 0, {400, 300, 500});
    files_ = {testing::SpecOf(path)};
    plan_ = CutPlan(testing::AllPieces(files_), 150, 40, false);
    shuffled_ = CutPlan(testing::AllPieces(files_), 150, 40, true);
  }

  std::unique_ptr<Pipeline> Make(int32_t threads) const {
    return std::make_unique<Pipeline>(files_, testing::Columns(1), testing::Outputs(),
                                      PipelineOptions{.threads = threads,
                                                      .io_threads = threads,
                                                      .batch_memory_bytes = 1 << 20,
                                                      .fetch_memory_bytes = 1 << 20});
  }

  static void ExpectNoMemoryUsed(const Pipeline& pipeline) {
    EXPECT_EQ(pipeline.batch_memory().used_bytes, 0);
    EXPECT_EQ(pipeline.batch_memory().lent_bytes, 0);
    EXPECT_EQ(pipeline.fetch_memory().used_bytes, 0);
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  ReadPlan plan_;
  ReadPlan shuffled_;
};

// With segments of 300 bytes, tasks that run while the pipeline closes still request
// reads.
TEST_F(PipelineCloseTest, APipelineMayCloseAtAnyMoment) {
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    const auto pipeline = Make(static_cast<int32_t>(random() % 4));
    const auto before = std::chrono::microseconds(random() % 3000);
    {
      const auto scan = pipeline
                            ->Start(round % 2 == 0 ? plan_ : shuffled_,
                                    {.fetch_bytes = 20'000, .segment_bytes = 300})
                            .ValueOrDie();
      const Delivered delivered = Deliver(scan.get(), random() % 4);
      if (round % 3 == 0) std::this_thread::sleep_for(before);
      pipeline->Close();
      bool done = false;
      EXPECT_EQ(KindOf(scan->Next(std::chrono::seconds(1), &done).status()),
                ErrorKind::kClosed);
      EXPECT_FALSE(done);
      pipeline->Close();
    }
    ExpectNoMemoryUsed(*pipeline);
  }
}

// The client lives longer than the pipeline, and may be telling of bytes that came.
TEST_F(PipelineCloseTest, APipelineOfRemoteFilesMayEndAtAnyMoment) {
  const std::vector<std::string> paths = {files_[0].path};
  files_[0].remote = true;
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const auto queue = std::make_shared<RemoteQueue>();
    const testing::StoreClient client(queue, paths);
    auto pipeline =
        std::make_unique<Pipeline>(files_, testing::Columns(1), testing::Outputs(),
                                   PipelineOptions{.batch_memory_bytes = 1 << 20,
                                                   .fetch_memory_bytes = 1 << 20,
                                                   .remote = queue});
    const auto scan =
        pipeline->Start(round % 2 == 0 ? plan_ : shuffled_, {.fetch_bytes = 20'000})
            .ValueOrDie();
    Deliver(scan.get(), random() % 3);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    pipeline.reset();
  }
}

TEST_F(PipelineCloseTest, PassesMayBeClosedOrDroppedAtAnyMoment) {
  std::mt19937 random(2);
  for (const int32_t threads : {0, 1, 4}) {
    const auto pipeline = Make(threads);
    for (int round = 0; round < 60; ++round) {
      const auto scan = pipeline
                            ->Start(round % 2 == 0 ? plan_ : shuffled_,
                                    {.open_windows = 3, .segment_bytes = 2000})
                            .ValueOrDie();
      const Delivered delivered = Deliver(scan.get(), random() % 5);
      if (random() % 2 == 0) {
        scan->Close();
        scan->Close();
        bool done = false;
        EXPECT_EQ(KindOf(scan->Next(std::chrono::seconds(1), &done).status()),
                  ErrorKind::kClosed);
      }
    }
    // An abandoned pass does no harm to the next pass.
    const auto scan = pipeline->Start(plan_, {}).ValueOrDie();
    EXPECT_EQ(Deliver(scan.get()).batches.size(), 30);
    pipeline->Close();
    ExpectNoMemoryUsed(*pipeline);
  }
}

// The expected pass is begun, dropped or closed after any part of the pass before.
TEST_F(PipelineCloseTest, PassesMayBePreparedAtAnyMoment) {
  std::mt19937 random(3);
  for (const int32_t threads : {0, 1, 4}) {
    const auto pipeline = Make(threads);
    const ScanOptions options{
        .open_windows = 2, .fetch_bytes = 20'000, .segment_bytes = 2000};
    auto scan = pipeline->Start(plan_, options).ValueOrDie();
    for (int round = 0; round < 60; ++round) {
      size_t taken = 0;
      while (!scan->opened_all()) taken += Deliver(scan.get(), 1).batches.size();
      taken += Deliver(scan.get(), random() % 4).batches.size();
      const int64_t read = pipeline->counters_ahead().read_bytes;
      auto next = pipeline->Start(shuffled_, options, scan.get()).ValueOrDie();
      if (random() % 3 > 0) {
        EXPECT_EQ(Deliver(scan.get()).batches.size() + taken, 30);
      }
      if (random() % 3 > 0) scan->Close();
      if (random() % 3 > 0) {
        next->Begin();
        scan = std::move(next);
        continue;
      }
      if (random() % 2 == 0) next->Close();
      next.reset();
      scan = pipeline->Start(plan_, options).ValueOrDie();
      EXPECT_GE(pipeline->counters_ahead().read_bytes, read);
    }
    EXPECT_EQ(Deliver(scan.get()).batches.size(), 30);
    scan.reset();
    pipeline->Close();
    ExpectNoMemoryUsed(*pipeline);
  }
}

TEST_F(PipelineCloseTest, BatchesOutliveThePipeline) {
  for (const int32_t threads : {0, 3}) {
    auto pipeline = Make(threads);
    auto scan = pipeline->Start(shuffled_, {}).ValueOrDie();
    const Delivered delivered = Deliver(scan.get());
    scan.reset();
    pipeline->Close();
    EXPECT_GT(pipeline->batch_memory().lent_bytes, 0);
    EXPECT_EQ(pipeline->batch_memory().lent_bytes, pipeline->batch_memory().used_bytes);
    pipeline.reset();
    const Layout layout(testing::Columns(1), testing::Outputs());
    const auto expected = testing::PlannedTexts(shuffled_, files_);
    size_t row = 0;
    for (const Batch& batch : delivered.batches) {
      for (const auto& line : testing::Texts(layout, batch)) {
        ASSERT_EQ(line, expected[row++]);
      }
    }
    EXPECT_EQ(row, expected.size());
  }
}

TEST_F(PipelineCloseTest, APassMayOutliveThePipeline) {
  for (const int32_t threads : {0, 2}) {
    auto pipeline = Make(threads);
    const auto scan = pipeline->Start(plan_, {.segment_bytes = 1000}).ValueOrDie();
    const Delivered delivered = Deliver(scan.get(), 2);
    pipeline.reset();
    bool done = false;
    EXPECT_EQ(KindOf(scan->Next(std::chrono::seconds(1), &done).status()),
              ErrorKind::kClosed);
    scan->Begin();
    scan->Close();
  }
}

TEST_F(PipelineCloseTest, NothingStartsAfterClose) {
  const auto pipeline = Make(2);
  pipeline->Close();
  const auto scan = pipeline->Start(plan_, {});
  EXPECT_EQ(KindOf(scan.status()), ErrorKind::kClosed);
  EXPECT_EQ(scan.status().message(), "The dataset was closed");
}

TEST_F(PipelineCloseTest, SeveralMayCloseAtOnce) {
  for (int round = 0; round < 30; ++round) {
    const auto pipeline = Make(2);
    const auto scan = pipeline->Start(plan_, {.segment_bytes = 500}).ValueOrDie();
    std::vector<std::jthread> closers;
    for (int i = 0; i < 3; ++i) closers.emplace_back([&] { pipeline->Close(); });
  }
}

TEST_F(PipelineCloseTest, CloseEndsAWait) {
  for (const int32_t threads : {1, 3}) {
    const auto pipeline = Make(threads);
    // The plan's windows are finished long before; only one batch is taken.
    const auto scan = pipeline->Start(plan_, {.open_windows = 1}).ValueOrDie();
    Status last;
    std::jthread consumer([&] {
      bool done = false;
      while (last.ok()) {
        last = scan->Next(std::chrono::hours(1), &done).status();
        if (done) scan->Close();
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pipeline->Close();
    consumer.join();
    EXPECT_EQ(KindOf(last), ErrorKind::kClosed);
  }
}

TEST_F(PipelineCloseTest, WindowsOpenNoFurtherThanAllowed) {
  const auto pipeline = Make(4);
  const auto scan = pipeline->Start(plan_, {.open_windows = 2}).ValueOrDie();
  const Delivered first = Deliver(scan.get(), 1);
  ASSERT_EQ(first.batches.size(), 1);
  // Long enough to decode the file, if nothing held the scan back.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(pipeline->counters().decoded_values.load(), 300 * (4 + testing::kStacked));
  EXPECT_EQ(Deliver(scan.get()).batches.size(), 29);
}

TEST_F(PipelineCloseTest, APassThatDoesNotWaitHasABatchOrItsEnd) {
  const auto pipeline = Make(2);
  for (const ReadPlan& plan : {plan_, shuffled_}) {
    const auto scan = pipeline->Start(plan, {.fetch_bytes = 20'000}).ValueOrDie();
    int64_t rows = 0;
    bool done = false;
    while (!done) {
      const auto began = std::chrono::steady_clock::now();
      while (scan->waits()) {
        ASSERT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(50));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      const auto batch = scan->Next(std::chrono::milliseconds(0), &done).ValueOrDie();
      ASSERT_TRUE(batch || done);
      if (batch) rows += batch->areas.rows;
    }
    EXPECT_EQ(rows, plan.rows);
    EXPECT_FALSE(scan->waits());
  }
  const auto closed = pipeline->Start(plan_, {}).ValueOrDie();
  pipeline->Close();
  EXPECT_FALSE(closed->waits()) << "Next has an error";
}

TEST_F(PipelineCloseTest, APassThatIsWorkedOnByWhoWaitsHasWork) {
  const auto pipeline = Make(0);
  EXPECT_FALSE(pipeline->Start(plan_, {}).ValueOrDie()->waits());
}

TEST_F(PipelineCloseTest, NextReturnsInTime) {
  const auto pipeline = Make(0);
  const auto scan = pipeline->Start(plan_, {}).ValueOrDie();
  bool done = false;
  const auto batch = scan->Next(std::chrono::milliseconds(0), &done);
  ASSERT_TRUE(batch.ok());
  EXPECT_FALSE(batch->has_value());
  EXPECT_FALSE(done);
}

}  // namespace
}  // namespace fastload
