// One pass over a dataset: schedules its windows and delivers its batches in order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fastload/base/executor.h"
#include "fastload/base/status.h"
#include "fastload/collate/window.h"
#include "fastload/fetch/fetch.h"
#include "fastload/plan/read_plan.h"
#include "fastload/scan/dataset.h"

namespace fastload {

struct ScanOptions {
  int32_t open_windows = 2;         // whose memory is open at a time
  int64_t fetch_bytes = 256 << 20;  // compressed bytes in memory
  int64_t segment_bytes = 8 << 20;  // of one read
  int64_t request_bytes = 8 << 20;  // of one request to a store
  int64_t hole_bytes = 64 << 10;    // that a request reads along
  std::shared_ptr<DecodedQueue>
      wakes;  // when Next may have something, for who makes blocks
  // Of each kernel, what the seeds of rows are made of.
  std::vector<uint64_t> kernel_keys;
};

// A finished batch.
struct Batch {
  int64_t index = 0;
  std::shared_ptr<Block> block;
  Layout::Areas areas;
  int32_t failed_kernel = -1;  // whose outputs, and those of kernels after it, lack
  uint64_t failed_key = 0;     // what its seeds are made of
  int64_t window = 0;          // of the plan, that its last row lies in
};

// A row group whose bytes are corrupt, and the window of the plan that needs it.
struct Damage {
  int64_t window;
  RowGroupId row_group;
};

// Thread-safe. Tasks hold a reference to their scan, so that an abandoned one ends by
// itself; what it borrows (executors, pools, dataset) is the Pipeline's.
//
// A window goes through these stages, windows in plan order:
//   opened    fewer than `open_windows` windows are undelivered
//   prepared  its column chunks are asked for, as the byte budget allows, and its order
//   is
//             computed. Those of a store are asked for before it is opened
//   staged    its columns of bytes and lists are decoded
//   counted   so that the sizes of its batches are known
//   placed    its batches have their memory
//   filled    every unit has written its columns
//   computed  kernels have been called on each of its batches
//   delivered every batch that lies in it alone has been handed out
class Scan : public std::enable_shared_from_this<Scan> {
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
  bool opened_all() const;

  // The next batch in plan order; nullopt when none is ready within `timeout`. `*done` is
  // set when the pass is over. The first error of the earliest window ends the pass,
  // after every batch before that window; so does a batch on which a kernel failed, which
  // is told again from then on.
  Result<std::optional<Batch>> Next(std::chrono::milliseconds timeout, bool* done);

  // Whether Next has a batch at once.
  bool ready();

  // Whether Next would wait, rather than have a batch, the end or an error, or work to
  // do.
  bool waits();

  // What ended the pass, once Next has told its error; nullopt unless it is an
  // ErrorKind::kCorruptFile or kStorage of a row group.
  std::optional<Damage> damage();

  // Abandons the pass: tasks that have not begun do nothing. Idempotent.
  void Close();

 private:
  struct Pending {  // a batch that is not handed out yet
    int64_t filled_rows = 0;
    bool ready = false;
    Batch batch;
    std::shared_ptr<Window> window;  // of a batch that lies in one window alone
    std::vector<Part> parts;         // of one that lies in several
  };
  struct Request {
    std::shared_ptr<Window> window;
    int32_t unit;
  };
  using Step = WindowTask::Step;

  // Those named Locked run with mutex_ held.
  void OpenWindowsLocked();
  int64_t OpenedLocked() const;
  // Whether a window is prepared that can't be opened yet: a store takes its time.
  bool LooksAheadLocked() const;
  // Has the next pass take what this one doesn't need any more.
  void LeaveToNextLocked();
  // How much of the options this scan may use.
  void Allow(int64_t windows, int64_t bytes);
  void UnblockLocked(const std::shared_ptr<Window>& window, int32_t unit);
  // All blocks of the window are there.
  void BlocksArrivedLocked(const std::shared_ptr<Window>& window);
  void AdmitLocked();
  // Bytes that count as fetched from the unit's admission on.
  static int64_t Charge(const Window& window, const WindowUnit& unit);
  void DecodedLocked(const std::shared_ptr<Window>& window, int32_t unit);
  void FilledLocked(const std::shared_ptr<Window>& window);
  void CloseWindowLocked(const std::shared_ptr<Window>& window);
  // Whether the next batch is there.
  bool ReadyLocked() const;
  void FailLocked(int64_t window, const Status& status);
  void WakeLocked();
  // There is work: for those that wait in Next(), where nobody else does it.
  void WakeForWorkLocked();
  void SubmitLocked(const std::shared_ptr<Window>& window, int32_t unit, Step step);
  void SubmitTaskLocked(const std::shared_ptr<Window>& window, int32_t unit, Step step,
                        int32_t task);
  // The cursors of the window's unit are there for the next window.
  void CarriedLocked(const Window& window, int32_t unit, Step step);

  void Describe(Window* window) const;
  void CutParts(Window* window) const;
  void Prepare(const std::shared_ptr<Window>& window);
  // Lets an opened, prepared window be decoded.
  void Open(const std::shared_ptr<Window>& window);
  // By file of a store, what offset indexes are read from.
  using IndexFiles = std::map<int32_t, std::shared_ptr<File>>;
  // Of all columns and pieces, in one go. What can't be told is told where it is read.
  IndexFiles AskForIndexes(const Window& window) const;
  // `seen_cached`: of each piece, as File::IsCached has it.
  Status MakeStreams(Window* window, int32_t unit, const IndexFiles& indexes,
                     std::span<std::optional<int64_t>> seen_cached);
  // Asks for the blocks of a window, whose units wait for them.
  void AskForBlocks(const std::shared_ptr<Window>& window);
  // Those of remote files, whose `pages` are known.
  void MakeRemoteStreams(Window* window) const;
  // Of units that share requests.
  void MakeSharedStreams(Window* window, const std::vector<size_t>& units) const;
  FetchContext Fetch() const;
  void Run(const std::shared_ptr<Window>& window, int32_t unit, Step step, int32_t task,
           Scratch& scratch);
  // Whether the unit's rows are staged in the order in which they are stored.
  bool IsOrderless(size_t unit) const;
  // One less before the sizes of the window's batches are counted.
  void CountDown(const std::shared_ptr<Window>& window);
  // One less before the window's batches get their memory.
  void PlaceBatches(const std::shared_ptr<Window>& window);
  bool Wanted(const Window& window);
  // Runs a step of the window; what it throws, such as bad_alloc, fails the window.
  template <typename Fn>
  void Attempt(int64_t window, const Fn& fn);
  void ComputeOrder(Window* window);
  Status AllocateParts(Window* window);
  void Merge(int64_t batch, Scratch& scratch);
  // Calls the kernels on a batch that is complete but for them.
  void Compute(int64_t batch, Scratch& scratch);
  Status CallKernels(Batch* batch, Scratch& scratch) const;

  int64_t BatchRows(int64_t batch) const;
  int64_t LastWindow(int64_t batch) const;
  int64_t SharesWanted() const;
  int64_t Priority(int64_t window, int32_t unit) const;

  Dataset* const dataset_;
  Executor* const cpu_;
  const FetchContext fetch_;
  BlockPool* const batch_pool_;
  BlockPool* const staging_pool_;
  const ReadPlan plan_;
  const ScanOptions options_;
  const int64_t first_priority_;
  const int64_t batches_;
  std::vector<int64_t> first_output_;  // of each window, and the total

  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);

  std::mutex mutex_;
  std::condition_variable ready_;
  int64_t wakes_ = 0;  // notifications of ready_ so far: none is lost between two looks
  bool preparing_ = false;
  std::atomic<bool> begun_ = true;  // false: expected after the pass that runs
  int64_t allowed_windows_;
  int64_t allowed_bytes_;
  std::weak_ptr<Scan> next_;  // expected after this one
  // To prepare; set with mutex_ held.
  std::atomic<int64_t> next_window_ = 0;
  int64_t next_to_open_ = 0;  // not after it
  std::map<int64_t, std::shared_ptr<Window>> open_;
  std::deque<Request>
      requests_;               // units whose bytes are not asked for yet, in plan order
  int64_t fetched_bytes_ = 0;  // bytes that admitted units and carried cursors may hold
  // That were asked for, and how many windows wait for each.
  std::map<DecodedQueue::Key, int64_t> awaited_blocks_;
  bool fetches_ = false;  // not all bytes of the windows so far were at hand
  int64_t admitted_ = 0;  // units admitted and not decoded yet
  std::shared_ptr<Window> last_prepared_;  // if the next window goes on from it
  std::vector<Shuffle> spare_shuffles_;    // of filled windows, for reuse
  std::map<int64_t, Pending> pending_;
  int64_t next_batch_ = 0;
  int64_t failed_window_;  // the earliest; plan_.windows() when none has
  Status failure_;
  std::optional<Damage> damage_;  // of the failure that was told
};

template <typename Fn>
void Scan::Attempt(int64_t window, const Fn& fn) {
  const Status status = CatchParquet([&] {
    fn();
    return Status::OK();
  });
  if (status.ok()) return;
  std::lock_guard lock(mutex_);
  FailLocked(window, status);
}

}  // namespace fastload
