// The release of Python's GIL while the core works.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include "pybind11/pybind11.h"

namespace fastload {

// A scope without the GIL. Made and destroyed by a thread that holds the GIL.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  // Takes the GIL again. Once the interpreter has ended, Python before 3.14 ends a thread
  // that asks for the GIL by unwinding the thread's stack, which destructors turn into
  // std::terminate. Such a thread instead waits here for the end of the process, as in
  // Python 3.14.
  ~WithoutGil() {
#if defined(__GLIBCXX__)
    try {
      PyEval_RestoreThread(thread_);
    } catch (const abi::__forced_unwind&) {
      while (true) pause();
    }
#else
    PyEval_RestoreThread(thread_);  // macOS ends a thread without unwinding its stack
#endif
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const thread_;
};

// Returns fn(), called without the GIL. `fn` touches no Python object.
template <typename Fn>
auto CallWithoutGil(const Fn& fn) {
  const WithoutGil without_gil;
  return fn();
}

}  // namespace fastload
