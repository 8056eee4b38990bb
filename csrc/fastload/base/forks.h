// Whether this process is the one that made an object, or a fork of that process.
#pragma once

#include <cstdint>

namespace fastload {

// Returns how many forks lie between this process and the process that loaded the core. A
// number of a process would not do: the system gives the number of a process that has
// ended to a later one, which may be a fork of a fork.
uint64_t ForkCount() noexcept;

// The mark of the process that made an object. A child of fork() has a copy of the
// object, whose threads are gone and whose locks may be held for ever.
class MadeHere {
 public:
  // Returns true in the process that made the object, and false in its forks.
  bool mine() const noexcept { return forks_ == ForkCount(); }

 private:
  const uint64_t forks_ = ForkCount();
};

}  // namespace fastload
