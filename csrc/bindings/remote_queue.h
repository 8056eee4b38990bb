// The queue of a dataset's remote reads, which Python's client serves.
#pragma once

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
  ~ReturnedBuffers();
  void Add(std::unique_ptr<Py_buffer> buffer);
  // The caller holds the GIL.
  void Release();

 private:
  std::mutex mutex_;  // guards the members below
  std::vector<std::unique_ptr<Py_buffer>> buffers_;
};

class PyRemoteQueue {
 public:
  PyRemoteQueue(std::shared_ptr<RangeCache> cache, std::vector<std::string> objects)
      : queue_(std::make_shared<RemoteQueue>(std::move(cache), std::move(objects))) {}

  const std::shared_ptr<RemoteQueue>& queue() const { return queue_.object(); }
  int wake_fd() const { return queue_->wake_fd(); }
  bool closed() const { return queue_->closed(); }

  pybind11::list Take(int64_t most);
  pybind11::object Finish(int64_t id, const pybind11::buffer& bytes, bool take);
  void Fail(int64_t id, bool changed, const std::string& message);
  void Close();

 private:
  ForkGuard<RemoteQueue> queue_;
  const std::shared_ptr<ReturnedBuffers> returned_ = std::make_shared<ReturnedBuffers>();
};

}  // namespace fastload
