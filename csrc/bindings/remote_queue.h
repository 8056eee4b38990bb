// The queue of a dataset's remote reads, which Python's client serves.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/fork_guard.h"
#include "fastload/fetch/remote.h"
#include "pybind11/pybind11.h"

namespace fastload {

// A list of Python buffers whose bytes the core no longer uses. A thread with the GIL
// releases the buffers.
class ReturnedBuffers {
 public:
  // A list, because a destructor that adds a buffer must not take memory.
  using Buffers = std::list<Py_buffer>;

  // Moves the buffers to this list.
  void Add(Buffers& buffers) noexcept;
  // The caller holds the GIL.
  void Release() noexcept;

 private:
  std::mutex mutex_;  // guards the members below
  // Buffers that are left at the end stay with Python: the core has outlived the client,
  // so no thread with the GIL is left to release them.
  Buffers buffers_;
};

// A child of fork() has no client and no passes: to the child the queue is closed and
// empty.
class PyRemoteQueue {
 public:
  PyRemoteQueue(std::shared_ptr<RangeCache> cache, std::vector<std::string> objects)
      : queue_(std::make_shared<RemoteQueue>(std::move(cache), std::move(objects))) {}

  const std::shared_ptr<RemoteQueue>& queue() const { return queue_.object(); }
  int wake_fd() const { return queue_->wake_fd(); }
  bool closed() const { return !queue_.mine() || queue_->closed(); }

  pybind11::list Take(int64_t most);
  pybind11::object Finish(int64_t id, const pybind11::buffer& bytes, bool take);
  void Fail(int64_t id, bool changed, const std::string& message);
  void Close();

 private:
  std::vector<RemoteQueue::Request> TakeUpTo(int64_t most);
  // Makes a tuple for Python of each request. A request that Python can't get fails.
  pybind11::list Tuples(const std::vector<RemoteQueue::Request>& requests) const;

  ForkGuard<RemoteQueue> queue_;
  const std::shared_ptr<ReturnedBuffers> returned_ = std::make_shared<ReturnedBuffers>();
};

}  // namespace fastload
