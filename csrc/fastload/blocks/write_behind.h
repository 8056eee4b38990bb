// A thread that writes blocks while passes already read the blocks' rows from memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "arrow/record_batch.h"
#include "fastload/base/status.h"

namespace fastload {

// Writes blocks to files, one after another, on a thread of low priority, which starts
// with the first block. Thread-safe.
class WriteBehind {
 public:
  using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;
  // A block that was written: the block's number, and its checksum unless `status` is an
  // error.
  struct Written {
    int64_t number = 0;
    uint64_t checksum = 0;
    Status status;
  };

  // `wake` is called on the writing thread after each block.
  explicit WriteBehind(std::function<void()> wake);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // Queues a block of at least one record batch. The descriptor is duplicated, so that
  // the file stays open even if Close gives up a write that hangs. `name` is passed to
  // DecodedWriter::Make. Returns an error, and queues nothing, if the system refuses a
  // descriptor or the thread, or after Close. Throws std::bad_alloc, and queues nothing,
  // if there is no memory.
  Status Add(int64_t number, int fd, const std::string& name, Batches batches);
  // Takes a block out of the queue. Returns false if the block is being written, or was
  // written.
  bool Drop(int64_t number);
  // Returns the blocks that were written since the last call.
  std::vector<Written> TakeWritten();

  // Waits until all queued blocks are written, for at most `timeout`, gives up the other
  // blocks, and ends the thread. A thread that hangs in a call of the system is left to
  // itself. Idempotent.
  void Close(std::chrono::milliseconds timeout);

 private:
  struct Job {
    int fd = -1;
    std::string name;
    Batches batches;
    Written written;
  };
  // Outlives the object if the thread hangs.
  struct State {
    explicit State(std::function<void()> to_wake) : wake(std::move(to_wake)) {}
    ~State();

    const std::function<void()> wake;
    std::atomic<bool> given_up = false;
    std::mutex mutex;  // guards the members below
    std::condition_variable changed;
    bool closed = false;
    bool ended = false;  // the thread has left its loop
    // Lists, because the thread moves a job from one to the other without memory.
    std::list<Job> jobs;
    std::list<Job> written;
  };

  static void Run(const std::shared_ptr<State>& state);
  static Result<uint64_t> Write(const Job& job, const std::atomic<bool>& given_up);
  // Starts the thread. ending_ is held.
  Status Start();

  const std::shared_ptr<State> state_;
  std::mutex ending_;  // guards thread_
  std::thread thread_;
};

}  // namespace fastload
