// The batches of a pass: joined, computed and handed out in plan order, or why not.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/collate/window.h"
#include "fastload/scan/pass.h"

namespace fastload {

// A finished batch.
struct Batch {
  int64_t index = 0;
  std::shared_ptr<Block> block;
  Layout::Areas areas;
  int32_t failed_kernel = -1;  // whose outputs, and those of kernels after it, lack
  uint64_t failed_key = 0;     // what its seeds are made of
  int64_t window = 0;          // of the plan, that its last row lies in
};

// Comes before every window of a pass, and so stands for the pass as a whole.
inline constexpr int64_t kWholePass = -1;

// A row group whose bytes are corrupt, and the window of the plan that needs it.
struct Damage {
  int64_t window;
  RowGroupId row_group;
};

// Takes the parts of batches that windows have filled, makes batches of them and hands
// those out in plan order, until the end or the first error of the earliest window.
// Belongs to one Scan, whose mutex guards every member. Methods named Locked are called
// with the mutex held, the others without: they take it.
class Delivery {
 public:
  // Does what a delivery asks for; called with the scan's mutex held.
  class Work {
   public:
    virtual ~Work() = default;
    // Has Merge() or Compute() called for a batch, as work of the window.
    virtual void SubmitMerge(int64_t window, int64_t batch) = 0;
    virtual void SubmitCompute(int64_t window, int64_t batch) = 0;
    // The window is filled, and all batches that lie in the window alone are handed out.
    virtual void Delivered(const std::shared_ptr<Window>& window) = 0;
  };

  struct Pending {  // a batch, or a run of them, that is not handed out yet
    int64_t filled_rows = 0;
    bool ready = false;
    Batch batch;             // of a run, all rows, until `cut`
    int64_t batches = 1;     // in the run
    std::vector<Batch> cut;  // the batches of a run, once it is ready
    // Of its rows, but for those of a lane that come from several windows.
    std::vector<std::shared_ptr<Window>> windows;
    std::vector<Part> parts;  // of a batch that lies in several windows, to be joined
  };
  using PendingBatches = std::map<int64_t, Pending>;  // by the (first) batch

  // All are borrowed.
  Delivery(const Pass* pass, std::mutex* mutex, Work* work);

  // As Scan::Next, Scan::ready and Scan::waits.
  Result<std::optional<Batch>> Next(std::chrono::milliseconds timeout, bool* done);
  bool ready();
  bool waits();
  std::optional<Damage> damage();

  // Gives the parts their rows of the memory of whole batches, where batches have theirs.
  // Leaves out parts that are whole batches. Only for batches of a known size.
  void PlaceInBatches(std::span<Part> parts);
  // Does so for one part, and allocates the batch's memory if the part is the first to
  // come; `sizes` are as for Layout::Place.
  Status PlaceInBatch(Part* part, std::span<const int64_t> sizes);
  // Takes a part of a window, once all units have filled the part.
  void AddLocked(const std::shared_ptr<Window>& window, Part* part);
  // Joins the parts of a batch that lies in several windows, and calls the kernels on it.
  void Merge(int64_t batch, Scratch& scratch);
  // Calls the kernels on a batch that is complete but for them. Cuts a run into batches,
  // and calls the kernels on each of them.
  void Compute(int64_t batch, Scratch& scratch);

  // The window can't be delivered. The error of the earliest window counts. kWholePass
  // stands for all windows: no batch is delivered any more. Takes no memory.
  void FailLocked(int64_t window, Status status) noexcept;
  // The error that ends the pass.
  const Status& failureLocked() const { return failure_; }
  // Whether the window exists and no window up to it has failed. Needs no lock.
  bool Wants(int64_t window) const { return window < failed_window_; }
  // Those who wait in Next() look again.
  void WakeLocked();
  // There is work: for those that wait in Next(), where nobody else does it.
  void WakeForWorkLocked();
  // Forgets all batches; the caller frees them without the lock.
  PendingBatches DropLocked();
  // Tells, in a line, what the next batch waits for.
  std::string DescribeLocked();

 private:
  // Returns the next batch, or the run that it is in.
  PendingBatches::iterator NextLocked();
  // Whether the next batch is there.
  bool ReadyLocked();
  // Has the next runs cut. The others wait, so that few small batches have a block of
  // their own.
  void CutRunsLocked();
  // Returns the batches of a run, each in a block of its own.
  Result<std::vector<Batch>> Cut(const Batch& run, int64_t batches,
                                 Scratch& scratch) const;
  // Gives the part its rows of the batch's memory; returns whether the batch has memory.
  bool PlacedLocked(Part* part) const;
  // A batch has all its rows, and kernels have been called on it.
  void FinishLocked(Batch batch);
  // The batch may be handed out; those who wait for it look again.
  void BecameReadyLocked(int64_t batch);
  Status CallKernels(Batch* batch, Scratch& scratch) const;

  const Pass* const pass_;
  std::mutex* const mutex_;
  Work* const work_;

  std::condition_variable ready_;
  int64_t wakes_ = 0;  // notifications of ready_ so far: none is lost between two looks
  PendingBatches pending_;
  int64_t next_batch_ = 0;
  int64_t next_to_cut_ = 0;  // the batch, or the first of a run, that is cut next
  int64_t runs_ahead_ = 0;   // runs that are cut, or being cut, and not handed out
  // The earliest; plan.windows() when none has. Written with the mutex held.
  std::atomic<int64_t> failed_window_;
  Status failure_;
  std::optional<Damage> damage_;  // of the failure that was told
};

}  // namespace fastload
