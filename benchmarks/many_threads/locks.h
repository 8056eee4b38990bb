// How often, and for how long, the threads of a process hold each of its mutexes.
#pragma once

#include <cstdint>

namespace fastload::many_threads {

struct LockUse {
  int64_t taken = 0;
  int64_t waited = 0;   // times that another thread held the mutex
  int64_t held_ns = 0;  // the wait of a condition variable is left out
};

// Starts counting, from zero, the locks of mutexes that the range of memory holds, and of
// those outside of the range. Only while no other thread takes a lock that is counted.
void CountLocks(const void* begin, const void* end);

LockUse LocksInside();
LockUse LocksOutside();

}  // namespace fastload::many_threads
