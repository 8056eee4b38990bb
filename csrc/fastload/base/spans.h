// When each stage worked, on which thread: recorded on request, for traces.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fastload {

enum class Stage : uint8_t {
  kPrepare,  // of a window: its reads are planned, and its order
  kRead,     // of a local file
  kRequest,  // to a store, from asking to arrival
  kStage,    // strings and lists are decoded
  kCount,    // sizes of batches are counted
  kFill,     // columns are decoded, or gathered, into batches
  kMerge,    // of a batch that lies in several windows
  kKernels,  // on a batch
  kWait,     // of the consumer, for a batch
};

// What was worked on.
struct SpanPlace {
  int64_t index =
      -1;  // kRead, kRequest: file; kMerge, kKernels, kWait: batch; else window
  int32_t unit = -1;  // of a window
  int64_t bytes = 0;  // kRead, kRequest
};

struct Span {
  Stage stage = Stage::kPrepare;
  int32_t thread = 0;    // as the system numbers it
  int64_t start_ns = 0;  // of std::chrono::steady_clock
  int64_t end_ns = 0;
  SpanPlace place;
};

// Keeps what it is told while it is on. Thread-safe; costs one load while it is off.
class SpanRecorder {
 public:
  struct Recorded {
    std::vector<Span> spans;  // in the order in which they ended
    int64_t dropped = 0;      // that there was no room for
  };

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Forgets what it has, and keeps the next `capacity` spans, in memory taken now.
  void Start(size_t capacity);

  // Turns it off.
  Recorded Stop();

  // Of the calling thread.
  void Add(Stage stage, int64_t start_ns, int64_t end_ns, const SpanPlace& place);

 private:
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  size_t capacity_ = 0;
  Recorded recorded_;
};

}  // namespace fastload
