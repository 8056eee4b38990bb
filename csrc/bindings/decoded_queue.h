// The queue of a dataset's blocks, which Python's makers serve.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "bindings/fork_guard.h"
#include "fastload/blocks/decoded_queue.h"

namespace fastload {

// A child of fork() has no makers and no passes: to the child the queue is closed.
class PyDecodedQueue {
 public:
  explicit PyDecodedQueue(int32_t at_once)
      : queue_(std::make_shared<DecodedQueue>(at_once)) {}

  const std::shared_ptr<DecodedQueue>& queue() const { return queue_.object(); }
  bool mine() const { return queue_.mine(); }
  // Throws std::runtime_error in a child of fork().
  DecodedQueue& Here() const {
    if (mine()) return *queue();
    throw std::runtime_error(
        "Expected a queue of this process, got one from before fork");
  }

  bool closed() const { return !mine() || queue_->closed(); }
  void Wake() const {
    if (mine()) queue_->Wake();
  }
  void Close() const {
    if (mine()) queue_->Close();
  }

 private:
  ForkGuard<DecodedQueue> queue_;
};

}  // namespace fastload
