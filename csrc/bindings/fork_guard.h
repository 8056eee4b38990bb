// Native objects with threads and locks, in a process that may be forked.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace fastload {

// Owns an object of the process that made it. A child of fork() has a copy whose threads
// are gone and whose locks may be held for ever: there the copy is left alone and leaks.
template <typename T>
class ForkGuard {
 public:
  explicit ForkGuard(std::shared_ptr<T> object) : object_(std::move(object)) {}
  ~ForkGuard() { Drop(); }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool mine() const { return getpid() == owner_; }
  T* operator->() const { return object_.get(); }
  const std::shared_ptr<T>& object() const { return object_; }

  // Does at once what the end of the guard would do. Idempotent.
  void Drop() {
    if (!mine()) new std::shared_ptr<T>(std::move(object_));
    object_.reset();
  }

 private:
  std::shared_ptr<T> object_;
  const pid_t owner_ = getpid();
};

}  // namespace fastload
