// What Python does beside a pass: bringing the bytes of remote files.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/fetch/remote.h"
#include "faults/failing_new.h"

namespace fastload::testing {

// Brings the bytes of remote files, which lie on disk after all. Goes on where the core
// has no memory, as the client does.
class StoreClient {
 public:
  StoreClient(std::shared_ptr<RemoteQueue> queue, std::vector<std::string> paths)
      : queue_(std::move(queue)), paths_(std::move(paths)), thread_([this] {
          while (!over_) Serve();
        }) {}
  ~StoreClient() {
    over_ = true;
    queue_->Wake();
    thread_.join();
  }
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

 private:
  void Serve() {
    pollfd wake{.fd = queue_->wake_fd(), .events = POLLIN, .revents = 0};
    poll(&wake, 1, /*timeout=*/1000);
    queue_->ClearWake();
    try {
      while (const auto request = queue_->Take()) {
        queue_->Finish(request->id, Read(*request));
      }
    } catch (const std::bad_alloc&) {
      queue_->Wake();
    }
  }

  std::shared_ptr<arrow::Buffer> Read(const RemoteQueue::Request& request) const {
    const SoundNew sound;
    std::string bytes(static_cast<size_t>(request.range.bytes), '\0');
    const std::string& path = paths_[static_cast<size_t>(request.file)];
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t n = pread(fd, bytes.data(), bytes.size(), request.range.offset);
    close(fd);
    if (n != request.range.bytes) throw std::runtime_error("Expected a whole range");
    return arrow::Buffer::FromString(std::move(bytes));
  }

  const std::shared_ptr<RemoteQueue> queue_;
  const std::vector<std::string> paths_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace fastload::testing
