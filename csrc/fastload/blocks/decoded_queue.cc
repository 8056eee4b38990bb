#include "fastload/blocks/decoded_queue.h"

#include <algorithm>

namespace fastload {

void DecodedQueue::Ask(Key key, Arrived arrived) {
  Result<Block> found = Block();
  {
    std::lock_guard lock(mutex_);
    const auto kept = std::ranges::find(kept_, key, &std::pair<Key, Block>::first);
    if (closed_) {
      found = MakeError(ErrorKind::kClosed, "The dataset was closed");
    } else if (kept != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, kept);
      found = kept->second;
    } else {
      std::vector<Arrived>& others = waiting_[key];
      if (others.empty()) {
        queue_.push_back(key);
        WakeLocked();
      }
      others.push_back(std::move(arrived));
      return;
    }
  }
  arrived(found);
}

std::optional<DecodedQueue::Key> DecodedQueue::Take() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return std::nullopt;
  const Key key = queue_.front();
  queue_.pop_front();
  return key;
}

int64_t DecodedQueue::Wait(int64_t seen, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, timeout, [&] { return closed_ || wakes_ != seen; });
  return wakes_;
}

void DecodedQueue::Wake() {
  const std::lock_guard lock(mutex_);
  WakeLocked();
}

void DecodedQueue::WakeLocked() {
  ++wakes_;
  woken_.notify_all();
}

BlockState DecodedQueue::Open(Key key, const std::string& path, const std::string& name,
                              int64_t rows, uint64_t written) {
  uint64_t checked = written;
  if (checked == 0) {
    std::lock_guard lock(mutex_);
    const auto known = checked_.find(key);
    if (known != checked_.end()) checked = known->second;
  }
  const auto [state, block] = DecodedBlock::Open(path, name, &checked);
  if (state != BlockState::kGood) return state;
  if (block->rows() != rows) return BlockState::kDamaged;
  {
    std::lock_guard lock(mutex_);
    checked_[key] = checked;
    kept_.emplace_front(key, block);
    if (kept_.size() > kMostKept) kept_.pop_back();
  }
  Answer(key, block);
  return state;
}

void DecodedQueue::Fail(Key key, ErrorKind kind, const std::string& message) {
  Answer(key, AtRowGroup(kind, message, {key.first, key.second}));
}

void DecodedQueue::Answer(Key key, const Result<Block>& result) {
  std::vector<Arrived> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    waiting = std::move(found->second);
    waiting_.erase(found);
  }
  for (const Arrived& arrived : waiting) arrived(result);
}

void DecodedQueue::Close() {
  std::vector<Key> keys;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    kept_.clear();
    queue_.clear();
    for (const auto& [key, waiting] : waiting_) keys.push_back(key);
    WakeLocked();
  }
  for (const Key& key : keys) {
    Answer(key, MakeError(ErrorKind::kClosed, "The dataset was closed"));
  }
}

bool DecodedQueue::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace fastload
