// Executors of tasks: a pool of threads, or the thread that waits for the tasks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fastload/base/status.h"

namespace fastload {

class Scratch;

// A queue of tasks and what runs the tasks: the lowest priority number first, then in the
// order of submission.
class Executor {
 public:
  // A task must not throw: its owner turns what its work throws into the owner's failure.
  // See fault().
  using Task = std::function<void(Scratch&)>;

  virtual ~Executor() = default;
  // Returns how many tasks run at the same time.
  virtual int threads() const = 0;
  // Returns true if the executor has threads of its own. Otherwise tasks run on the
  // threads that call RunOne.
  virtual bool has_threads() const = 0;
  // Throws std::bad_alloc, and queues nothing, if there is no memory.
  virtual void Submit(int64_t priority, Task task) = 0;

  struct Submission {
    int64_t priority = 0;
    Task task;
  };
  // Does the same as Submit for each of the tasks, in their order, but takes the queue's
  // lock once for all of them.
  virtual void SubmitAll(std::vector<Submission> tasks) = 0;
  // Runs one waiting task on the calling thread if the executor has no threads. Returns
  // false if no task waits, or if the executor has threads.
  virtual bool RunOne() = 0;
  // Runs all queued tasks to their end, then stops. Idempotent. No task may be submitted
  // after Close.
  virtual void Close() = 0;

  // Returns OK, or the first exception that a task of the executor's threads has thrown.
  // The thread lives on, but whoever waits for the task's work waits in vain: owners of
  // tasks look here before they wait.
  virtual Status fault() const { return Status::OK(); }

  // Returns the CPU time of the executor's threads so far, in nanoseconds, also once they
  // have ended. What other threads do in RunOne does not count.
  virtual int64_t CpuNs() const { return 0; }
};

// Starts a pool of `threads` threads named `name`. Throws std::system_error if the system
// refuses a thread.
std::unique_ptr<Executor> MakeThreadPool(const std::string& name, int threads);
std::unique_ptr<Executor> MakeInlineExecutor();

}  // namespace fastload
