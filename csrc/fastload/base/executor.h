// Where tasks run: a pool of threads, or the thread that waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

namespace fastload {

class Scratch;

// Runs tasks, the lowest priority number first, then in the order they came.
class Executor {
 public:
  using Task = std::function<void(Scratch&)>;

  virtual ~Executor() = default;
  // Tasks that run at the same time.
  virtual int threads() const = 0;
  // Whether they run on threads of its own; else on those that call RunOne.
  virtual bool has_threads() const = 0;
  virtual void Submit(int64_t priority, Task task) = 0;
  // Runs one waiting task on the calling thread, where tasks have no thread of their own;
  // false when there is none, or when threads run them.
  virtual bool RunOne() = 0;
  // Runs what is queued to its end, then stops. Idempotent. Nothing is submitted after
  // it.
  virtual void Close() = 0;
};

// Threads are named `name` and started here. Throws std::system_error if the system
// refuses one.
std::unique_ptr<Executor> MakeThreadPool(const std::string& name, int threads);
std::unique_ptr<Executor> MakeInlineExecutor();

}  // namespace fastload
