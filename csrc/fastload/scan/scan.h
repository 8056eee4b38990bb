// One pass over a dataset: runs the tasks of its windows and delivers its batches in
// order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fastload/base/executor.h"
#include "fastload/base/status.h"
#include "fastload/collate/window.h"
#include "fastload/fetch/fetch.h"
#include "fastload/plan/read_plan.h"
#include "fastload/scan/dataset.h"
#include "fastload/scan/delivery.h"
#include "fastload/scan/pass.h"
#include "fastload/scan/task_groups.h"
#include "fastload/scan/window_schedule.h"

namespace fastload {

// Thread-safe. Tasks hold a reference to their scan, so that an abandoned one ends by
// itself; what it borrows (executors, pools, dataset) is the Pipeline's.
//
// A scan has two halves: a WindowSchedule, which decides what may start, and a Delivery,
// which makes batches of filled windows and hands them out. The scan runs the tasks and
// tells both halves what is done. One mutex guards the members of all three.
//
// A window goes through these stages, windows in plan order:
// clang-format off
//   opened     fewer than `open_windows` windows are undelivered   WindowSchedule::OpenWindows
//   prepared   it is described and has its streams                 Scan::Prepare, window_setup.cc
//   asked for  column by column, as the byte budget allows; those  WindowSchedule::Admit,
//              of a store are asked for before it is opened          Scan::StartStreams
//   ordered    the order of its rows is computed                   Scan::Open
//   staged     its columns of bytes and lists are decoded          Scan::Run, collate/window*.cc
//   counted    so that the sizes of its batches are known          Scan::Run
//   placed     its batches have their memory                       Scan::PlaceBatches
//   filled     every unit has written its columns; a batch of      Scan::Run, Scan::FilledLocked
//              staged units goes on as soon as it is complete        Scan::AddPartsLocked
//   computed   kernels have been called on each of its batches     Delivery::Compute, Merge
//   delivered  every batch that lies in it alone is handed out     Delivery::Next, Scan::FilledLocked,
//                                                                  Scan::Delivered
// clang-format on
class Scan : public std::enable_shared_from_this<Scan>,
             private WindowSchedule::Work,
             private Delivery::Work {
 public:
  Scan(Dataset* dataset, Executor* cpu, FetchContext fetch, BlockPool* batch_pool,
       BlockPool* staging_pool, ReadPlan plan, ScanOptions options,
       int64_t first_priority);

  // Tasks and reads of it have less; they go by `first_priority`, in plan order.
  int64_t end_priority() const;

  // Begins the work. Not part of the constructor: tasks share ownership.
  void Start();

  // Begins the work of the pass that is expected after this one, with what this one
  // leaves it of its windows and bytes, and after this one's own work. Its reads are
  // counted apart until it begins.
  void StartNext(const std::shared_ptr<Scan>& next);

  // The pass that was expected has begun.
  void Begin();

  // Whether nothing is left to open, so that the next pass may be started.
  bool opened_all() const { return schedule_.opened_all(); }

  // The next batch in plan order; nullopt when none is ready within `timeout`. `*done` is
  // set when the pass is over. The first error of the earliest window ends the pass,
  // after every batch before that window; so does a batch on which a kernel failed, which
  // is told again from then on.
  Result<std::optional<Batch>> Next(std::chrono::milliseconds timeout, bool* done);

  // Whether Next has a batch at once.
  bool ready() { return delivery_.ready(); }

  // Whether Next would wait, rather than have a batch, the end or an error, or work to
  // do.
  bool waits() { return delivery_.waits(); }

  // What ended the pass, once Next has told its error; nullopt unless it is an
  // ErrorKind::kCorruptFile or kStorage of a row group.
  std::optional<Damage> damage() { return delivery_.damage(); }

  // Tells, a line each, what delivery and every window in work wait for, by the names of
  // their conditions: for whoever finds out why a pass is stuck.
  std::string Describe();

  // Abandons the pass: tasks that have not begun do nothing. Idempotent. Takes no memory.
  void Close() noexcept;

 private:
  using Step = WindowStep;

  // Who takes the lock. Only a task of the CPU pool may submit others after the lock: the
  // pool, which others may close meanwhile, waits for it.
  enum class By : uint8_t { kTask, kOther };
  // Holds mutex_. At its end, submits all tasks that may start by then at once: those of
  // a task of the CPU pool without the lock.
  class Lock;

  // Those of the schedule and of the delivery, and those named Locked, run with mutex_
  // held.
  void SubmitPrepare(const std::shared_ptr<Window>& window) override;
  void SubmitOpen(const std::shared_ptr<Window>& window) override;
  void SubmitTask(const std::shared_ptr<Window>& window, int32_t unit, Step step,
                  int32_t task) override;
  void StartStreams(const std::shared_ptr<Window>& window, int32_t unit) override;
  void SubmitMerge(int64_t window, int64_t batch) override;
  void SubmitCompute(int64_t window, int64_t batch) override;
  void Delivered(const std::shared_ptr<Window>& window) override;

  // Has the next pass take what this one doesn't need any more.
  void LeaveToNextLocked();
  // Hands those of the parts that all units have filled to the delivery.
  void AddPartsLocked(const std::shared_ptr<Window>& window, std::span<Part> parts);
  void FilledLocked(const std::shared_ptr<Window>& window);

  // Another pass comes first: until it grants more, this scan may use none of the
  // options.
  void Expect();
  // How much of the options this scan may use.
  void Allow(int64_t windows, int64_t bytes);
  void Prepare(const std::shared_ptr<Window>& window);
  // Lets an opened, prepared window be decoded.
  void Open(const std::shared_ptr<Window>& window);
  // Submits tasks, in groups. What is thrown fails the pass. kOther: mutex_ is held.
  void SubmitReady(std::vector<ReadyTask> ready, By by) noexcept;
  // Runs the tasks of a group, and tells the schedule of all of them at once.
  void Run(const TaskGroup& group, Scratch& scratch);
  struct RunTask;
  // Runs one task.
  RunTask RunOne(Window* window, const UnitTask& task, Scratch& scratch);
  // Tells the schedule what has been run. Returns true if batches can be placed.
  bool RanLocked(const std::shared_ptr<Window>& window, const RunTask& ran);
  // The sizes of the window's batches are known.
  void PlaceBatches(const std::shared_ptr<Window>& window);
  bool Wanted(const Window& window) const;
  // Runs a part of the pass's work, on any thread. What `fn` throws, such as bad_alloc,
  // fails the whole pass, not one window: whatever `fn` has not done might be what an
  // earlier window waits for. Called without mutex_, which `fn` may take. Takes no
  // memory.
  template <typename Fn>
  void Attempt(const Fn& fn);

  Pass pass_;
  std::mutex mutex_;
  Delivery delivery_;
  WindowSchedule schedule_;
  std::weak_ptr<Scan> next_;             // expected after this one
  std::vector<Shuffle> spare_shuffles_;  // of filled windows, for reuse
  std::vector<ReadyTask> ready_;         // that may start, until mutex_ is left
};

}  // namespace fastload
