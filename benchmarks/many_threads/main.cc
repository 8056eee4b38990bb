// What do the schedule of windows and the executor cost for each task, with how many
// threads? Run from the root: `make -f benchmarks/many_threads/Makefile`.
//
// Whole passes of the core over a file of as many columns, without the work of the tasks:
// where a task would decode, the thread sleeps. So threads stand for cores, as far as two
// cores can wake them: beside each pass stand as many threads that sleep as often without
// any executor. Printed are tasks per second, and as a share of those threads'; the CPU
// time for each task beyond theirs; and for each task, how often and for how long the
// locks of the executor, and all others, are held. What one lock is held for a task
// bounds how many threads have work: the column "threads at most".

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "fastload/scan/pipeline.h"
#include "locks.h"
#include "parquet/arrow/writer.h"
#include "passes.h"
#include "row_files.h"

namespace {

std::atomic<int64_t> task_ns{0};
std::atomic<int64_t> tasks_run{0};

void Sleep(int64_t ns) {
  const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

}  // namespace

// Takes the place of WindowTask::Run (--wrap of the linker).
extern "C" fastload::Status __wrap__ZN8fastload10WindowTask3RunENS_10WindowStepE(
    fastload::WindowTask* /*task*/, fastload::WindowStep /*step*/) {
  tasks_run.fetch_add(1, std::memory_order_relaxed);
  if (task_ns > 0) Sleep(task_ns);
  return fastload::Status::OK();
}

namespace fastload::many_threads {
namespace {

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double CpuSeconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

template <typename Run>
Cost Measure(const Run& run) {
  const Cost before{Now(), CpuSeconds()};
  run();
  return {Now() - before.seconds, CpuSeconds() - before.cpu_seconds};
}

constexpr int64_t kRows = 64;  // of a row group, and of a window

void WriteTable(const std::string& path, int columns, int row_groups) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  arrow::FloatBuilder builder;
  for (int64_t row = 0; row < kRows * row_groups; ++row) {
    Check(builder.Append(static_cast<float>(row)));
  }
  const auto array = *builder.Finish();
  for (int c = 0; c < columns; ++c) {
    fields.push_back(arrow::field("c" + std::to_string(c), arrow::float32(), false));
    arrays.push_back(array);
  }
  const auto table = arrow::Table::Make(arrow::schema(fields), arrays);
  auto sink = *arrow::io::FileOutputStream::Open(path);
  Check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, kRows));
  Check(sink->Close());
}

// As many sleeps as there are tasks, shared out among threads beforehand.
Cost Ideal(int threads, int64_t tasks) {
  return Measure([&] {
    std::vector<std::jthread> sleepers;
    for (int t = 0; t < threads; ++t) {
      sleepers.emplace_back([=] {
        const int64_t mine = tasks * (t + 1) / threads - tasks * t / threads;
        for (int64_t i = 0; i < mine; ++i) Sleep(task_ns);
      });
    }
  });
}

// The pass of several that took least.
Cost Best(Pipeline* pipeline, const ReadPlan& plan, const ScanOptions& options,
          int passes, const void* counted, size_t counted_bytes) {
  Cost best{1e9, 0};
  for (int p = 0; p < passes; ++p) {
    std::shared_ptr<Scan> scan;
    CountLocks(counted, static_cast<const uint8_t*>(counted) + counted_bytes);
    tasks_run = 0;
    const Cost cost = Measure([&] {
      scan = *pipeline->Start(plan, options);
      Check(testing::Deliver(scan.get()).status);
    });
    if (cost.seconds < best.seconds) best = cost;
  }
  return best;
}

void PrintPasses(int columns, int row_groups, const std::vector<int>& threads,
                 const std::vector<int64_t>& task_us) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("table.parquet");
  WriteTable(path, columns, row_groups);
  const std::vector<FileSpec> files = {testing::SpecOf(path)};
  std::vector<ColumnSpec> specs;
  std::vector<OutputSpec> outputs;
  for (int c = 0; c < columns; ++c) {
    ColumnSpec spec;
    spec.name = "c" + std::to_string(c);
    spec.leaves = {c};
    spec.dtype = DType::kFloat32;
    specs.push_back(std::move(spec));
    outputs.push_back({OutputKind::kColumn, {c}});
  }
  const auto plan = testing::CutPlan(testing::AllPieces(files), kRows, kRows, false);
  std::printf("%d columns, %d windows\n", columns, row_groups);
  for (const int64_t us : task_us) {
    for (const int count : threads) {
      task_ns = 1000 * us;
      Pipeline pipeline(files, specs, outputs,
                        {.threads = count,
                         .io_threads = 1,
                         .batch_memory_bytes = 1 << 26,
                         .staging_memory_bytes = 1 << 26,
                         .fetch_memory_bytes = 1 << 26});
      // As the engine has it: enough for all threads, and one more for the consumer.
      const int open = std::max(2, (count + columns - 1) / columns + 1);
      const Cost pass =
          Best(&pipeline, plan, {.open_windows = open}, us > 1000 ? 2 : 4,
               pipeline.cpu_.get(), malloc_usable_size(pipeline.cpu_.get()));
      const auto tasks = static_cast<double>(tasks_run);
      const LockUse executor = LocksInside();
      const LockUse others = LocksOutside();
      pipeline.Close();
      const Cost ideal = us > 0 ? Ideal(count, tasks_run) : Cost{};
      const double held = static_cast<double>(std::max(executor.held_ns, others.held_ns));
      std::printf("%5lld us %4d threads %9.0f tasks/s", static_cast<long long>(us), count,
                  tasks / pass.seconds);
      if (us > 0) {
        std::printf(" %5.2f of ideal", ideal.seconds / pass.seconds);
      } else {
        std::printf("%15s", "");
      }
      std::printf(
          " %6.2f us CPU  executor %5.2f locks %6.0f ns %4.1f %% waits"
          "  others %5.2f locks %6.0f ns %4.1f %% waits",
          1e6 * (pass.cpu_seconds - ideal.cpu_seconds) / tasks,
          static_cast<double>(executor.taken) / tasks,
          static_cast<double>(executor.held_ns) / tasks,
          100.0 * static_cast<double>(executor.waited) /
              static_cast<double>(executor.taken),
          static_cast<double>(others.taken) / tasks,
          static_cast<double>(others.held_ns) / tasks,
          100.0 * static_cast<double>(others.waited) / static_cast<double>(others.taken));
      if (us > 0) {
        std::printf("  %6.0f threads at most",
                    1000.0 * static_cast<double>(us) * tasks / held);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace fastload::many_threads

int main(int argc, char** argv) {
  prctl(PR_SET_TIMERSLACK, 1);  // inherited by all threads
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const std::vector<int> threads =
      quick ? std::vector<int>{2, 16} : std::vector<int>{1, 2, 4, 8, 16, 32, 64};
  fastload::many_threads::PrintPasses(1000, 8, threads, {0, 30, 300});
  fastload::many_threads::PrintPasses(40, 100, threads, {0, 300, 3000});
  return 0;
}
