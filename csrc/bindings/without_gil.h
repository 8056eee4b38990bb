// Python's lock, let go while the core works.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include "pybind11/pybind11.h"

namespace fastload {

// Lets go of the GIL as long as it lives. Made and destroyed by a thread that has it.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  // Once the interpreter has ended, Python before 3.14 ends a thread that asks for the
  // GIL by unwinding its stack, which destructors turn into std::terminate. Instead it
  // waits here for the end of the process, as from 3.14 on.
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

}  // namespace fastload
