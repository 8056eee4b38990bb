#include "fastload/fetch/remote.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <limits>
#include <string>
#include <utility>

namespace fastload {
namespace {

// Requests a range at the highest priority, because a thread is going to wait for the
// range.
std::shared_ptr<RemoteRead> AskFirst(RemoteQueue* queue, int32_t file, ByteRange range) {
  constexpr auto kFirst = std::numeric_limits<int64_t>::min();
  auto read = std::make_shared<RemoteRead>(file, range);
  queue->Ask(read, kFirst, std::make_shared<const std::atomic<bool>>(false));
  return read;
}

// Waits for a requested range, and copies a part of the range.
Status Copy(RemoteRead* read, ByteRange part, uint8_t* out) {
  std::promise<void> done;
  if (read->Then([&done] { done.set_value(); })) done.get_future().wait();
  ARROW_ASSIGN_OR_RAISE(const auto found, read->bytes());
  std::memcpy(out, found->data() + (part.offset - read->range().offset),
              static_cast<size_t>(part.bytes));
  return Status::OK();
}

}  // namespace

bool RemoteRead::Then(std::function<void()> then) {
  std::lock_guard lock(mutex_);
  if (bytes_) return false;
  waiting_.push_back(std::move(then));
  return true;
}

Result<std::shared_ptr<arrow::Buffer>> RemoteRead::bytes() const {
  std::lock_guard lock(mutex_);
  if (!bytes_)
    return MakeError(ErrorKind::kStorage,
                     "Expected bytes that have arrived, got a pending read");
  return *bytes_;
}

void RemoteRead::Finish(Result<std::shared_ptr<arrow::Buffer>> bytes) noexcept {
  std::vector<std::function<void()>> waiting;
  {
    std::lock_guard lock(mutex_);
    bytes_ = std::move(bytes);
    waiting.swap(waiting_);
  }
  for (const auto& then : waiting) {
    // The others still have to be called.
    static_cast<void>(CatchParquet([&] {
      then();
      return Status::OK();
    }));
  }
}

RemoteQueue::RemoteQueue(std::shared_ptr<RangeCache> cache,
                         std::vector<std::string> objects)
    : cache_(std::move(cache)), objects_(std::move(objects)) {}

RemoteQueue::~RemoteQueue() { Close(); }

bool RemoteQueue::Keeps(int32_t file, const std::vector<ByteRange>& ranges) const {
  if (cache_ == nullptr) return false;
  const std::string& object = objects_.at(static_cast<size_t>(file));
  return !object.empty() && cache_->Covers(object, ranges);
}

bool RemoteQueue::ReadKept(int32_t file, const ByteRange& range, uint8_t* out) const {
  if (cache_ == nullptr) return false;
  const std::string& object = objects_.at(static_cast<size_t>(file));
  return !object.empty() && cache_->Read(object, range, out);
}

bool RemoteQueue::Ask(const std::shared_ptr<RemoteRead>& read, int64_t priority,
                      Cancelled cancelled) noexcept {
  if (read->asked_.exchange(true)) return false;
  const Status queued = CatchParquet([&] {
    std::lock_guard lock(mutex_);
    if (closed_) return DatasetClosed();
    waiting_.emplace(priority, Asked{read, std::move(cancelled)});
    return Status::OK();
  });
  if (queued.ok()) {
    Wake();
  } else {
    read->Finish(queued);
  }
  return true;
}

bool RemoteQueue::brings() const {
  std::lock_guard lock(mutex_);
  return !taken_.empty();
}

std::optional<RemoteQueue::Request> RemoteQueue::Take() noexcept {
  const std::shared_lock calling(calling_);
  while (true) {
    std::shared_ptr<RemoteRead> read;
    Status failed;
    {
      std::lock_guard lock(mutex_);
      const auto first = waiting_.begin();
      if (first == waiting_.end()) return std::nullopt;
      read = std::move(first->second.read);
      const bool cancelled = *first->second.cancelled;
      waiting_.erase(first);
      failed = cancelled ? PassClosed() : CatchParquet([&] {
        taken_.emplace(next_id_, read);
        return Status::OK();
      });
      if (failed.ok()) return Request{next_id_++, read->file(), read->range()};
    }
    read->Finish(failed);
  }
}

void RemoteQueue::Finish(int64_t id,
                         Result<std::shared_ptr<arrow::Buffer>> bytes) noexcept {
  const std::shared_lock calling(calling_);
  std::shared_ptr<RemoteRead> read;
  {
    std::lock_guard lock(mutex_);
    const auto found = taken_.find(id);
    if (found == taken_.end()) return;
    read = std::move(found->second);
    taken_.erase(found);
  }
  if (bytes.ok() && (*bytes)->size() != read->range().bytes) {
    bytes = CatchParquet([&] {
      return MakeError(ErrorKind::kStorage,
                       "Expected " + std::to_string(read->range().bytes) +
                           " bytes at offset " + std::to_string(read->range().offset) +
                           ", got " + std::to_string((*bytes)->size()));
    });
  }
  read->Finish(std::move(bytes));
}

void RemoteQueue::Close() noexcept {
  {
    const std::shared_lock calling(calling_);
    decltype(waiting_) waiting;
    decltype(taken_) taken;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      waiting.swap(waiting_);
      taken.swap(taken_);
    }
    for (const auto& [priority, asked] : waiting) asked.read->Finish(DatasetClosed());
    for (const auto& [id, read] : taken) read->Finish(DatasetClosed());
  }
  Wake();
  // Other threads may still call waiters of reads that they took out before.
  const std::lock_guard called(calling_);
}

bool RemoteQueue::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

Status RemoteFile::ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const {
  if (queue_->ReadKept(file_, {offset, bytes}, out)) return Status::OK();
  const auto read = AskFirst(queue_, file_, {offset, bytes});
  return Copy(read.get(), {offset, bytes}, out);
}

bool RemoteFile::AtHand(const ByteRange& range) const {
  return queue_->Keeps(file_, {range});
}

RangesOfFile::RangesOfFile(RemoteQueue* queue, int32_t file,
                           const std::vector<ByteRange>& ranges)
    : file_(queue, file) {
  for (const ByteRange& range : ranges) {
    // Ranges in the cache are read from local disk later.
    if (!queue->Keeps(file, {range})) reads_.push_back(AskFirst(queue, file, range));
  }
}

RemoteRead* RangesOfFile::ReadOf(int64_t offset) const {
  const auto holds = [&](const auto& read) {
    const ByteRange& range = read->range();
    return range.offset <= offset && offset < range.offset + range.bytes;
  };
  const auto found = std::ranges::find_if(reads_, holds);
  return found == reads_.end() ? nullptr : found->get();
}

bool RangesOfFile::AtHand(const ByteRange& range) const {
  const int64_t end = range.offset + range.bytes;
  for (int64_t offset = range.offset; offset < end;) {
    const RemoteRead* const read = ReadOf(offset);
    if (read == nullptr) return file_.AtHand({offset, end - offset});
    offset = read->range().offset + read->range().bytes;
  }
  return true;
}

Status RangesOfFile::ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const {
  while (bytes > 0) {
    RemoteRead* const read = ReadOf(offset);
    if (read == nullptr) return file_.ReadAt(offset, bytes, out);
    const int64_t n =
        std::min(bytes, read->range().offset + read->range().bytes - offset);
    ARROW_RETURN_NOT_OK(Copy(read, {offset, n}, out));
    offset += n;
    bytes -= n;
    out += n;
  }
  return Status::OK();
}

}  // namespace fastload
