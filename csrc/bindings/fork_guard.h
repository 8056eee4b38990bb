// A guard of native objects with threads and locks in a process that may be forked.
#pragma once

#include <memory>
#include <utility>

#include "fastload/base/forks.h"

namespace fastload {

// An owner of an object that belongs to the process which made the object. A child of
// fork() has a copy whose threads are gone and whose locks may be held for ever, so the
// child leaves the copy alone, and leaks the copy.
template <typename T>
class ForkGuard {
 public:
  explicit ForkGuard(std::shared_ptr<T> object) : object_(std::move(object)) {}
  ~ForkGuard() { Drop(); }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool mine() const { return made_here_.mine(); }
  T* operator->() const { return object_.get(); }
  const std::shared_ptr<T>& object() const { return object_; }

  // Does the work of the guard's destructor now. Idempotent.
  void Drop() {
    if (!mine()) new std::shared_ptr<T>(std::move(object_));
    object_.reset();
  }

 private:
  std::shared_ptr<T> object_;
  const MadeHere made_here_;
};

}  // namespace fastload
