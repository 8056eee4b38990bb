// The sender of batches to other processes, as Python sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/fork_guard.h"
#include "fastload/base/memory.h"
#include "fastload/share/shared_batches.h"

namespace fastload {

class PySender {
 public:
  explicit PySender(std::shared_ptr<BatchSender> sender)
      : sender_(std::move(sender)), blocks_(sender_->Memory(), 0) {}

  std::unique_ptr<MemorySource> Memory() const { return sender_->Memory(); }
  Result<std::shared_ptr<Block>> Allocate(int64_t bytes) {
    return blocks_.Allocate(bytes);
  }
  BatchSender* operator->() const { return sender_.operator->(); }

 private:
  ForkGuard<BatchSender> sender_;
  BlockPool blocks_;
};

}  // namespace fastload
