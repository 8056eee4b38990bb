#include "fastload/blocks/decoded_queue.h"

#include <algorithm>

namespace fastload {

void DecodedQueue::Ask(Key key, Arrived arrived) {
  Result<Block> found = Block();
  {
    std::lock_guard lock(mutex_);
    const auto kept = std::ranges::find(kept_, key, &std::pair<Key, Block>::first);
    const auto held = held_.find(key);
    Block in_memory = held == held_.end() ? nullptr : held->second.lock();
    if (closed_) {
      found = DatasetClosed();
    } else if (in_memory != nullptr) {
      found = std::move(in_memory);
    } else if (kept != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, kept);
      found = kept->second;
    } else {
      std::vector<Arrived>& others = waiting_[key];
      others.reserve(others.size() + 1);
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
  const DecodedBlock::Opened opened = DecodedBlock::Open(path, name, &checked);
  const auto& block = opened.block;
  if (opened.state != BlockState::kGood) return opened.state;
  if (block->rows() != rows) return BlockState::kDamaged;
  // The waiters get the block even if there is no memory to keep it for others.
  static_cast<void>(CatchParquet([&] {
    std::lock_guard lock(mutex_);
    checked_[key] = checked;
    kept_.emplace_front(key, block);
    if (kept_.size() > kMostKept) kept_.pop_back();
    return Status::OK();
  }));
  Answer(key, block);
  return opened.state;
}

void DecodedQueue::HandOver(Key key, const Block& block) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
    held_[key] = block;
  }
  Answer(key, block);
}

void DecodedQueue::NoteWritten(Key key, uint64_t checksum) {
  const std::lock_guard lock(mutex_);
  checked_[key] = checksum;
}

void DecodedQueue::Fail(Key key, ErrorKind kind, const std::string& message) noexcept {
  Answer(key, CatchParquet(
                  [&] { return AtRowGroup(kind, message, {key.first, key.second}); }));
}

void DecodedQueue::Answer(Key key, const Result<Block>& result) noexcept {
  std::vector<Arrived> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    waiting = std::move(found->second);
    waiting_.erase(found);
  }
  CallAll(waiting, result);
}

void DecodedQueue::CallAll(const std::vector<Arrived>& waiting,
                           const Result<Block>& result) noexcept {
  for (const Arrived& arrived : waiting) {
    // The others still have to be called.
    static_cast<void>(CatchParquet([&] {
      arrived(result);
      return Status::OK();
    }));
  }
}

void DecodedQueue::Close() noexcept {
  decltype(kept_) kept;
  decltype(waiting_) waiting;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    kept.swap(kept_);
    waiting.swap(waiting_);
    queue_.clear();
    WakeLocked();
  }
  for (const auto& [key, of_key] : waiting) CallAll(of_key, DatasetClosed());
}

bool DecodedQueue::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace fastload
