#include "fastload/base/spans.h"

#include <utility>

#include "fastload/base/platform.h"

namespace fastload {

void SpanRecorder::Start(size_t capacity) {
  std::lock_guard lock(mutex_);
  recorded_ = {};
  recorded_.spans.reserve(capacity);
  capacity_ = capacity;
  on_ = true;
}

SpanRecorder::Recorded SpanRecorder::Stop() {
  std::lock_guard lock(mutex_);
  on_ = false;
  return std::exchange(recorded_, {});
}

void SpanRecorder::Add(Stage stage, int64_t start_ns, int64_t end_ns,
                       const SpanSubject& subject) {
  // The number is not cached per thread: after a fork the child's thread would keep its
  // parent's number.
  const auto thread = static_cast<int32_t>(ThreadNumber());
  std::lock_guard lock(mutex_);
  if (!on_) return;
  if (recorded_.spans.size() >= capacity_) {
    ++recorded_.dropped;
    return;
  }
  recorded_.spans.push_back({stage, thread, start_ns, end_ns, subject});
}

}  // namespace fastload
