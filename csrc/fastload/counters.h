// What the stages have done so far; every field only grows.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fastload {

struct Counters {
  std::atomic<int64_t> read_requests{0};
  std::atomic<int64_t> read_bytes{0};
  std::atomic<int64_t> read_ns{0};
  std::atomic<int64_t> decoded_values{0};  // rows x columns
  std::atomic<int64_t> decode_ns{0};       // decoding, casting and gathering
  std::atomic<int64_t> kernel_calls{0};    // kernels x batches
  std::atomic<int64_t> kernel_ns{0};
  std::atomic<int64_t> batches{0};
  std::atomic<int64_t> rows{0};
  std::atomic<int64_t> batch_bytes{0};
  std::atomic<int64_t> wait_ns{0};         // the consumer waited for a batch
  std::atomic<int64_t> merged_batches{0};  // put together from several windows
};

// Adds the nanoseconds of its life to a counter.
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

}  // namespace fastload
