// Spans of time in which each stage worked, with the thread; recorded on request, for
// traces.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fastload {

enum class Stage : uint8_t {
  kPrepare,  // a window: its reads and its order are planned
  kRead,     // a read from a local file
  kRequest,  // a request to a store, from asking to arrival
  kStage,    // strings and lists are decoded
  kCount,    // sizes of batches are counted
  kFill,     // columns are decoded, or gathered, into batches
  kMerge,    // a batch is put together from several windows
  kKernels,  // kernels run on a batch
  kWait,     // the consumer waits for a batch
};

// The object that a stage worked on.
struct SpanSubject {
  // Index of the file (kRead, kRequest), of the batch (kMerge, kKernels, kWait), or else
  // of the window.
  int64_t index = -1;
  int32_t unit = -1;  // index of the unit in its window
  int64_t bytes = 0;  // for kRead and kRequest
};

struct Span {
  Stage stage = Stage::kPrepare;
  int32_t thread = 0;    // thread number of the system
  int64_t start_ns = 0;  // nanoseconds of std::chrono::steady_clock
  int64_t end_ns = 0;
  SpanSubject subject;
};

// A recorder of spans. Keeps the spans that are added while the recorder is on.
// Thread-safe; costs one load while the recorder is off.
class SpanRecorder {
 public:
  struct Recorded {
    std::vector<Span> spans;  // in the order in which the spans ended
    int64_t dropped = 0;      // number of spans beyond the capacity
  };

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Forgets all recorded spans, allocates memory for `capacity` spans, and records the
  // next `capacity` spans.
  void Start(size_t capacity);

  // Turns the recorder off and returns the recorded spans.
  Recorded Stop();

  // Adds a span of the calling thread.
  void Add(Stage stage, int64_t start_ns, int64_t end_ns, const SpanSubject& subject);

 private:
  std::atomic<bool> on_ = false;
  std::mutex mutex_;  // guards the members below
  size_t capacity_ = 0;
  Recorded recorded_;
};

}  // namespace fastload
