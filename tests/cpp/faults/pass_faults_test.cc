// Tests of passes without memory: whichever allocation fails, on whichever thread, a pass
// ends with its rows or with OutOfMemory, and the next pass has all rows.
//
// By default some of a pass's allocations fail, one in each run. With
// FASTLOAD_EVERY_ALLOCATION=1 in the environment each fails once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fastload/filter/row_finder.h"
#include "fastload/scan/pipeline.h"
#include "faults/failing_new.h"
#include "faults/servers.h"
#include "faults/watchdog.h"
#include "nested_files.h"
#include "passes.h"

namespace fastload {
namespace {

using testing::CutPlan;
using testing::FailingNew;
using testing::SoundNew;

// Calls `run(n, which)`, which returns how many allocations there were, for n = 0, 1, 2,
// ... until allocation n is not reached. Runs about `runs` times, unless every allocation
// is to fail.
void FailAllocations(int64_t runs,
                     const std::function<int64_t(int64_t, FailingNew::Which)>& run) {
  const bool every = std::getenv("FASTLOAD_EVERY_ALLOCATION") != nullptr;
  for (const auto which : {FailingNew::kOne, FailingNew::kAllFrom}) {
    constexpr int64_t kNone = INT64_MAX;
    const int64_t calls = run(kNone, which);
    // An odd step meets the allocations of each of a few threads that take turns.
    const int64_t step = every ? 1 : std::max<int64_t>(calls / runs, 1) | 1;
    bool reached = true;
    for (int64_t n = 0; reached; n += step) {
      SCOPED_TRACE((which == FailingNew::kOne ? "allocation " : "all allocations from ") +
                   std::to_string(n) + " on");
      reached = run(n, which) > n;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Drops the file's pages from the system's page cache, so that reads go another way. Some
// file systems keep the pages.
void Evict(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

// The rows of a pass's batches, a line each.
using Lines = std::vector<std::string>;
using LinesOf = std::function<Lines(const Batch&)>;

// A pipeline, and what serves it.
struct Loader {
  std::unique_ptr<Pipeline> pipeline;
  std::shared_ptr<void> server;
};

class PassFaultsTest : public ::testing::Test {
 protected:
  static PipelineOptions OptionsOf(int32_t threads) {
    return {.threads = threads,
            .io_threads = threads,
            .batch_memory_bytes = 1 << 20,
            .staging_memory_bytes = 1 << 20,
            .fetch_memory_bytes = 1 << 20};
  }

  void WriteRows(const std::vector<int64_t>& row_groups) {
    const std::string path = directory_.File("part.parquet");
    testing::WriteRows(path, 0, row_groups);
    files_ = {testing::SpecOf(path)};
    paths_ = {path};
  }
  void WriteNested(const std::vector<int64_t>& row_groups) {
    const std::string path = directory_.File("part.parquet");
    testing::WriteNestedRows(path, 0, row_groups);
    files_ = {testing::SpecOf(path)};
    paths_ = {path};
  }

  Loader MakeLoader(int32_t threads, const std::vector<ColumnSpec>& columns,
                    const std::vector<OutputSpec>& outputs) {
    Loader loader;
    PipelineOptions options = OptionsOf(threads);
    options.kept_memory_bytes = kept_bytes_;
    options.kernels = kernels_;
    if (files_[0].remote) {
      options.remote = std::make_shared<RemoteQueue>();
      loader.server = std::make_shared<testing::StoreClient>(options.remote, paths_);
    }
    loader.pipeline = std::make_unique<Pipeline>(files_, columns, outputs,
                                                 std::move(options), selections_);
    return loader;
  }

  // A pass under way, up to its end or its error.
  struct Outcome {
    Status status;
    std::vector<Batch> batches;
  };

  // Takes all batches of a pass. The test's own allocations do not fail.
  static void Deliver(Scan* scan, Outcome* outcome) {
    bool done = false;
    while (!done && outcome->status.ok()) {
      Result<std::optional<Batch>> batch =
          scan->Next(std::chrono::milliseconds(200), &done);
      const SoundNew sound;
      outcome->status = batch.status();
      if (batch.ok() && *batch) outcome->batches.push_back(*std::move(*batch));
    }
  }

  // Runs a pass, and where `expects` is true another one that was prepared meanwhile, and
  // fails allocations on the way. Returns how many allocations there were.
  int64_t RunFailing(Pipeline* pipeline, int64_t n, FailingNew::Which which,
                     Outcome* outcome) {
    ReadPlan plan = plan_;
    ReadPlan next_plan = plan_;
    std::shared_ptr<Scan> scan;
    const testing::Watchdog watchdog([&] { return scan ? scan->Describe() : "start"; });
    const FailingNew failing(n, which);
    auto started = pipeline->Start(std::move(plan), options_);
    outcome->status = CopyOf(started.status());
    if (!started.ok()) return failing.calls();
    scan = *std::move(started);
    if (expects_) {
      auto next = pipeline->Start(std::move(next_plan), options_, scan.get());
      if (next.ok()) {
        scan->Close();
        scan = *std::move(next);
        scan->Begin();
      } else {
        outcome->status = CopyOf(next.status());
      }
    }
    Deliver(scan.get(), outcome);
    const int64_t calls = failing.calls();
    scan->Close();
    scan.reset();
    return calls;
  }

  Outcome RunClean(Pipeline* pipeline) const {
    Outcome outcome;
    const auto scan = pipeline->Start(plan_, options_).ValueOrDie();
    const testing::Watchdog watchdog([&] { return scan->Describe(); });
    Deliver(scan.get(), &outcome);
    return outcome;
  }

  static Status CopyOf(const Status& status) {
    const SoundNew sound;
    return status;
  }

  // Tests passes of a loader with these columns; `lines_of` reads a batch.
  void Check(int64_t runs, int32_t threads, const std::vector<ColumnSpec>& columns,
             const std::vector<OutputSpec>& outputs, const LinesOf& lines_of,
             const Lines& expected) {
    FailAllocations(runs, [&](int64_t n, FailingNew::Which which) {
      if (evicts_) Evict(paths_[0]);
      Loader loader = MakeLoader(threads, columns, outputs);
      Outcome outcome;
      const int64_t calls = RunFailing(loader.pipeline.get(), n, which, &outcome);
      ExpectEnd(outcome, lines_of, expected);
      outcome.batches.clear();
      // The same pipeline has all rows once there is memory.
      Outcome clean = RunClean(loader.pipeline.get());
      EXPECT_TRUE(clean.status.ok()) << clean.status.ToString();
      ExpectEnd(clean, lines_of, expected);
      clean.batches.clear();
      loader.pipeline->Close();
      // A server that answers right now may hold the memory of a window.
      loader.server.reset();
      ExpectNoMemoryUsed(*loader.pipeline);
      return calls;
    });
  }

  void ExpectEnd(const Outcome& outcome, const LinesOf& lines_of, const Lines& expected) {
    Lines lines;
    for (const Batch& batch : outcome.batches) {
      for (std::string& line : lines_of(batch)) lines.push_back(std::move(line));
    }
    if (outcome.status.ok()) {
      ASSERT_EQ(lines.size(), expected.size());
      for (size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i], expected[i]);
      return;
    }
    EXPECT_TRUE(outcome.status.IsOutOfMemory()) << outcome.status.ToString();
    ASSERT_LE(lines.size(), expected.size());
    EXPECT_TRUE(std::equal(lines.begin(), lines.end(), expected.begin()));
  }

  static void ExpectNoMemoryUsed(const Pipeline& pipeline) {
    EXPECT_EQ(pipeline.batch_memory().used_bytes, 0);
    EXPECT_EQ(pipeline.batch_memory().lent_bytes, 0);
    EXPECT_EQ(pipeline.staging_memory().used_bytes, 0);
    EXPECT_EQ(pipeline.fetch_memory().used_bytes, 0);
  }

  void CheckRows(int64_t runs, int32_t threads) {
    const Layout layout(testing::Columns(1), testing::Outputs());
    Check(
        runs, threads, testing::Columns(1), testing::Outputs(),
        [&](const Batch& batch) { return testing::Texts(layout, batch); },
        testing::PlannedTexts(plan_, files_));
  }

  void CheckNested(int64_t runs, int32_t threads) {
    const auto outputs = testing::NestedOutputs();
    const auto specs = testing::SpecsOf(outputs);
    const auto columns = testing::NestedColumns(1);
    const Layout layout(columns, specs);
    Lines expected;
    for (const auto& id : testing::PlannedRows(plan_, files_)) {
      std::string line;
      for (const auto& output : outputs) {
        line += output.text(testing::NestedRow(id.file, id.row, true)) + " ";
      }
      expected.push_back(std::move(line));
    }
    const auto lines_of = [&](const Batch& batch) {
      Lines lines(static_cast<size_t>(batch.areas.rows));
      for (size_t o = 0; o < specs.size(); ++o) {
        const testing::NestedTexts texts(
            layout, static_cast<int32_t>(o), specs[o],
            columns[static_cast<size_t>(specs[o].columns[0])], batch);
        for (size_t row = 0; row < lines.size(); ++row) {
          lines[row] += texts(static_cast<int64_t>(row)) + " ";
        }
      }
      return lines;
    };
    Check(runs, threads, columns, specs, lines_of, expected);
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileSpec> files_;
  std::vector<std::string> paths_;
  std::vector<FileSelection> selections_;
  std::vector<KernelSpec> kernels_;
  ReadPlan plan_;
  ScanOptions options_{.fetch_bytes = 9000, .segment_bytes = 600};
  int64_t kept_bytes_ = 0;
  bool evicts_ = false;
  bool expects_ = false;  // the pass is prepared behind another one
};

constexpr int64_t kRuns = 60;

TEST_F(PassFaultsTest, InOrder) {
  WriteRows({60, 40});
  plan_ = CutPlan(testing::AllPieces(files_), 35, 16, false);
  CheckRows(kRuns, 2);
}

TEST_F(PassFaultsTest, FromDisk) {
  WriteRows({60, 40});
  plan_ = CutPlan(testing::AllPieces(files_), 35, 16, false);
  evicts_ = true;
  CheckRows(kRuns, 2);
}

TEST_F(PassFaultsTest, ShuffledOnTheThreadThatWaits) {
  WriteRows({60, 40});
  plan_ = CutPlan(testing::AllPieces(files_), 55, 16, true);
  CheckRows(kRuns, 0);
}

TEST_F(PassFaultsTest, FromAStore) {
  WriteRows({60, 40});
  files_[0].remote = true;
  for (const bool shuffled : {false, true}) {
    plan_ = CutPlan(testing::AllPieces(files_), 35, 16, shuffled);
    CheckRows(kRuns, 2);
  }
  // Requests are larger than the bytes that may be fetched at once.
  options_ = {.fetch_bytes = 1, .request_bytes = 500, .hole_bytes = 0};
  CheckRows(kRuns, 2);
}

TEST_F(PassFaultsTest, Lists) {
  WriteNested({60, 40});
  for (const bool shuffled : {false, true}) {
    plan_ = CutPlan(testing::AllPieces(files_), 55, 16, shuffled);
    CheckNested(kRuns, 2);
  }
}

// The lists wait in their pages, which are recorded by the pass without memory.
TEST_F(PassFaultsTest, ListsOfKeptPages) {
  const std::string path = directory_.File("part.parquet");
  Lines expected;
  std::string json;
  for (int64_t row = 0; row < 100; ++row) {
    std::string line = "[";
    for (int64_t i = 0; i < 20 + row % 10; ++i) {
      line += (i > 0 ? "," : "") + std::to_string((row * 31 + i) % 999);
    }
    expected.push_back(line + "]");
    json += (row > 0 ? "," : "[") + expected.back();
  }
  const auto type = arrow::list(arrow::int32());
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("tokens", type)}),
                         {*arrow::json::ArrayFromJSONString(type, json + "]")});
  parquet::WriterProperties::Builder properties;
  properties.data_pagesize(900)->write_batch_size(32)->compression(
      parquet::Compression::SNAPPY);
  const auto sink = *arrow::io::FileOutputStream::Open(path);
  ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 60,
                                         properties.build())
                  .ok());
  ASSERT_TRUE(sink->Close().ok());
  files_ = {testing::SpecOf(path)};
  paths_ = {path};
  kept_bytes_ = 1 << 20;
  plan_ = CutPlan(testing::AllPieces(files_), 35, 16, false);
  const std::vector<ColumnSpec> columns = {
      {.name = "tokens", .leaves = {0}, .dtype = DType::kInt32, .depth = 1}};
  const auto lines_of = [](const Batch& batch) {
    Lines lines;
    const auto* offsets =
        reinterpret_cast<const int64_t*>(batch.block->data() + batch.areas.numbers[0]);
    const auto* tokens =
        reinterpret_cast<const int32_t*>(batch.block->data() + batch.areas.numbers[2]);
    for (int64_t row = 0; row < batch.areas.rows; ++row) {
      std::string line = "[";
      for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) {
        line += (i > offsets[row] ? "," : "") + std::to_string(tokens[i]);
      }
      lines.push_back(line + "]");
    }
    return lines;
  };
  Check(kRuns, 2, columns, {{OutputKind::kRagged, {0}}}, lines_of, expected);
}

TEST_F(PassFaultsTest, PreparedBehindAnother) {
  WriteRows({60, 40});
  plan_ = CutPlan(testing::AllPieces(files_), 100, 16, true);
  expects_ = true;
  CheckRows(kRuns, 2);
}

// Windows with more rows than a bucket of the shuffle.
TEST_F(PassFaultsTest, DealtToBuckets) {
  WriteRows({20'000, 15'000});
  plan_ = CutPlan(testing::AllPieces(files_), 35'000, 9000, true);
  options_ = {};
  CheckRows(5, 2);
}

TEST_F(PassFaultsTest, RowsThatStay) {
  WriteRows({3000});
  // Every eighth row, and no row of the second half.
  std::vector<uint8_t> bits(376, 0);
  std::fill_n(bits.begin(), 188, uint8_t{1});
  selections_ = {{.offsets = {0}, .bits = bits.data(), .bytes = 376}};
  const auto outputs = testing::Outputs();
  const Layout layout(testing::Columns(1), outputs);
  plan_ = CutPlan({{0, 0, 0, 188}}, 100, 30, false);
  Lines expected;
  for (int64_t row = 0; row < 188; ++row) {
    const auto values = testing::ValuesAt(0, 8 * row);
    expected.push_back(std::to_string(values.number) + " " +
                       (values.text_valid ? values.text : "(null)"));
  }
  const auto lines_of = [&](const Batch& batch) {
    Lines lines;
    const uint8_t* const base = batch.block->data();
    const auto* numbers = reinterpret_cast<const int64_t*>(
        Layout::Address(const_cast<uint8_t*>(base), batch.areas, layout.slot(0)));
    const int64_t* const text = batch.areas.numbers.data() + layout.slot(4).number;
    const auto* offsets = reinterpret_cast<const int64_t*>(base + text[0]);
    const auto* values = reinterpret_cast<const char*>(base + text[2]);
    for (int64_t row = 0; row < batch.areas.rows; ++row) {
      lines.push_back(std::to_string(numbers[row]) + " " +
                      std::string(values + offsets[row], values + offsets[row + 1]));
    }
    return lines;
  };
  for (const bool remote : {false, true}) {
    files_[0].remote = remote;
    Check(kRuns, 2, testing::Columns(1), outputs, lines_of, expected);
  }
}

// Adds 10.
int64_t AddTen(void** arrays, int64_t rows) {
  const auto* in = static_cast<const int64_t*>(arrays[0]);
  auto* out = static_cast<int64_t*>(arrays[1]);
  for (int64_t i = 0; i < rows; ++i) out[i] = in[i] + 10;
  return 0;
}

LinesOf LinesOfNumbers() {
  return [](const Batch& batch) {
    Lines lines;
    const auto* numbers =
        reinterpret_cast<const int64_t*>(batch.block->data() + batch.areas.numbers[0]);
    for (int64_t row = 0; row < batch.areas.rows; ++row) {
      lines.push_back(std::to_string(numbers[row]));
    }
    return lines;
  };
}

TEST_F(PassFaultsTest, Kernels) {
  WriteRows({60, 40});
  plan_ = CutPlan(testing::AllPieces(files_), 35, 16, false);
  kernels_ = {{.entry = AddTen, .inputs = {0}, .outputs = {0}}};
  options_.kernel_keys = {1};
  Lines expected;
  for (int64_t row = 0; row < 100; ++row) expected.push_back(std::to_string(row + 10));
  Check(kRuns, 2, testing::Columns(1), {{OutputKind::kColumn, {0}}}, LinesOfNumbers(),
        expected);
}

// The search for rows that stay, of local files and of a store's.
TEST_F(PassFaultsTest, RowFinder) {
  WriteRows({700, 400, 500});
  auto columns = testing::Columns(1);
  columns.resize(1);
  columns[0].fill = testing::BytesOf(int64_t{-1});
  const RowFilter filter{.tests = {{.column = 0, .ranges = {{650, 1150}}}},
                         .program = {0}};
  for (const bool remote : {false, true}) {
    files_[0].remote = remote;
    FailAllocations(kRuns, [&](int64_t n, FailingNew::Which which) {
      const auto queue = remote ? std::make_shared<RemoteQueue>() : nullptr;
      std::unique_ptr<testing::StoreClient> client;
      if (remote) client = std::make_unique<testing::StoreClient>(queue, paths_);
      const auto finder = RowFinder::Make(files_, queue, columns, filter, 2).ValueOrDie();
      const auto find = [&](bool clean) {
        std::vector<RowGroupId> ids = {{0, 0}, {0, 1}, {0, 2}};
        const testing::Watchdog watchdog([] { return "a search of rows"; });
        RowSearch search(finder.get(), std::move(ids), /*skip=*/false);
        while (!search.Wait(std::chrono::milliseconds(50))) {
        }
        const SoundNew sound;
        const std::vector<int64_t> counts = {50, 400, 51};
        bool failed = false;
        for (size_t i = 0; i < counts.size(); ++i) {
          const auto& found = search.found()[i];
          if (failed) break;  // what is behind a failure is not searched
          failed = !found.ok();
          if (found.ok()) {
            EXPECT_EQ(found->count, counts[i]);
          } else {
            EXPECT_TRUE(!clean && found.status().IsOutOfMemory())
                << found.status().ToString();
          }
        }
      };
      int64_t calls = 0;
      {
        const FailingNew failing(n, which);
        try {
          find(/*clean=*/false);
        } catch (const std::bad_alloc&) {
          // The search has not begun.
        }
        calls = failing.calls();
      }
      find(/*clean=*/true);
      return calls;
    });
  }
}

}  // namespace
}  // namespace fastload
