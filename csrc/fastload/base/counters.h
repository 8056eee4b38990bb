// Counters of the work that the stages have done so far. Every counter only grows.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "fastload/base/platform.h"
#include "fastload/base/spans.h"

namespace fastload {

struct Counters {
  std::atomic<int64_t> read_requests{0};
  std::atomic<int64_t> read_bytes{0};
  std::atomic<int64_t> read_ns{0};
  std::atomic<int64_t> decoded_values{0};  // rows x columns
  std::atomic<int64_t> decoded_pages{0};   // data pages that were decompressed
  std::atomic<int64_t> decode_ns{0};       // decoding, casting and gathering
  std::atomic<int64_t> kernel_calls{0};    // kernels x batches
  std::atomic<int64_t> kernel_ns{0};
  std::atomic<int64_t> batches{0};
  std::atomic<int64_t> rows{0};
  std::atomic<int64_t> batch_bytes{0};
  std::atomic<int64_t> wait_ns{0};  // time for which the consumer waited for a batch
  std::atomic<int64_t> next_cpu_ns{
      0};  // CPU time in Next() of consumers that do the work
  std::atomic<int64_t> merged_batches{0};  // batches put together from several windows
};

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A timer that records its own lifetime as a span of a stage, if spans are recorded.
class SpanTimer {
 public:
  // `spans` may be null.
  SpanTimer(SpanRecorder* spans, Stage stage, const SpanSubject& subject)
      : spans_(spans != nullptr && spans->on() ? spans : nullptr),
        stage_(stage),
        subject_(subject),
        start_ns_(spans_ == nullptr ? 0 : NowNs()) {}
  ~SpanTimer() {
    if (spans_ != nullptr) spans_->Add(stage_, start_ns_, NowNs(), subject_);
  }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

 private:
  SpanRecorder* spans_;
  Stage stage_;
  SpanSubject subject_;
  int64_t start_ns_;
};

// A timer that adds its own lifetime in nanoseconds to a counter.
class Timer {
 public:
  explicit Timer(std::atomic<int64_t>* total)
      : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Timer() {
    *total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now() - start_)
                   .count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  std::atomic<int64_t>* total_;
  std::chrono::steady_clock::time_point start_;
};

// A timer of a stage's work: adds its own lifetime in nanoseconds to a counter, less the
// lifetimes of the work timers that lived meanwhile on the same thread.
class WorkTimer {
 public:
  // Without a `total`, the time counts for no stage.
  explicit WorkTimer(std::atomic<int64_t>* total)
      : total_(total), before_ns_(std::exchange(inner_ns, 0)), start_ns_(NowNs()) {}
  ~WorkTimer() {
    const int64_t lifetime_ns = NowNs() - start_ns_;
    if (total_ != nullptr) *total_ += lifetime_ns - inner_ns;
    inner_ns = before_ns_ + lifetime_ns;
  }
  WorkTimer(const WorkTimer&) = delete;
  WorkTimer& operator=(const WorkTimer&) = delete;

 private:
  // Lifetimes of the timers within the thread's innermost timer.
  static inline constinit thread_local int64_t inner_ns = 0;

  std::atomic<int64_t>* total_;
  int64_t before_ns_;  // inner_ns of the timer around this one
  int64_t start_ns_;
};

// A timer that adds the CPU time of its thread in nanoseconds to a counter. Each end is a
// system call.
class CpuTimer {
 public:
  // Without a `total`, nothing is measured.
  explicit CpuTimer(std::atomic<int64_t>* total)
      : total_(total), start_ns_(total == nullptr ? 0 : ThreadCpuNs(pthread_self())) {}
  ~CpuTimer() {
    if (total_ != nullptr) *total_ += ThreadCpuNs(pthread_self()) - start_ns_;
  }
  CpuTimer(const CpuTimer&) = delete;
  CpuTimer& operator=(const CpuTimer&) = delete;

 private:
  std::atomic<int64_t>* total_;
  int64_t start_ns_;
};

}  // namespace fastload
