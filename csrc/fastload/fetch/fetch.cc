#include "fastload/fetch/fetch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fastload {
namespace {

// The number of column chunks requested ahead of the chunk being read, in plan order.
// Where each read takes milliseconds, this many reads are under way at a time; on a fast
// disk, this many reads do not delay the bytes needed next.
constexpr int64_t kAhead = 64;

}  // namespace

ChunkStream::ChunkStream(const FetchContext& context, int32_t file,
                         std::vector<ByteRange> ranges, int64_t segment_bytes,
                         int64_t priority, Cancelled cancelled)
    : context_(context),
      file_(file),
      ranges_(std::move(ranges)),
      bytes_(TotalBytes(ranges_)),
      priority_(priority),
      cancelled_(std::move(cancelled)),
      memory_bytes_(std::min(bytes_, 2 * segment_bytes)) {
  for (int64_t start = 0; start < bytes_; start += segment_bytes) {
    extents_.push_back(
        {.start = start, .bytes = std::min(segment_bytes, bytes_ - start)});
  }
  segments_.resize(extents_.size());
}

ChunkStream::ChunkStream(const FetchContext& context, int32_t file,
                         const std::vector<ByteRange>& ranges, const RemoteReads& reads,
                         int64_t priority, Cancelled cancelled)
    : context_(context),
      file_(file),
      ranges_(ranges),
      bytes_(TotalBytes(ranges_)),
      priority_(priority),
      cancelled_(std::move(cancelled)),
      memory_bytes_(bytes_) {
  if (ranges_.empty()) return;
  const auto before = [&](const auto& read) {
    return read->range().offset + read->range().bytes <= ranges_.front().offset;
  };
  auto read = std::ranges::partition_point(reads.reads, before);
  int64_t start = 0;
  int64_t largest = 0;
  for (ByteRange range : ranges_) {
    while (range.bytes > 0) {
      const int64_t end = (*read)->range().offset + (*read)->range().bytes;
      if (end <= range.offset) {
        ++read;
        continue;
      }
      const int64_t bytes = std::min(range.bytes, end - range.offset);
      extents_.push_back({.start = start,
                          .bytes = bytes,
                          .read = *read,
                          .offset = range.offset - (*read)->range().offset});
      start += bytes;
      range.offset += bytes;
      range.bytes -= bytes;
      largest = std::max(largest, (*read)->range().bytes);
    }
  }
  if (reads.at_once) {
    first_segments_ = extents_.size();
  } else {
    memory_bytes_ = std::min(bytes_, 2 * largest);
  }
  segments_.resize(extents_.size());
}

ChunkStream::~ChunkStream() = default;

size_t ChunkStream::Current() {
  while (current_ < extents_.size() &&
         position_ >= extents_[current_].start + extents_[current_].bytes) {
    ++current_;
  }
  return current_;
}

bool ChunkStream::Start(std::function<void()> ready) {
  if (segments_.empty()) return true;
  auto left = std::make_shared<std::atomic<size_t>>(first_segments_);
  for (size_t i = 0; i < first_segments_; ++i) {
    Request(i, [left, ready] {
      if (--*left == 0) ready();
    });
  }
  return false;
}

void ChunkStream::Request(size_t i, std::function<void()> ready) {
  {
    std::lock_guard lock(mutex_);
    if (i >= segments_.size() || std::exchange(segments_[i].requested, true)) return;
  }
  try {
    if (extents_[i].read != nullptr) return RequestRemote(i, std::move(ready));
    RequestLocal(i, std::move(ready));
  } catch (...) {
    // Nobody will bring the segment, and nobody may wait for the segment.
    Fill(i, FromException(), nullptr);
    throw;
  }
}

template <typename Fn>
void ChunkStream::Bring(size_t i, const Fn& read) {
  std::shared_ptr<arrow::Buffer> bytes;
  Status status = CatchParquet([&] { return read().Value(&bytes); });
  Fill(i, std::move(status), std::move(bytes));
}

void ChunkStream::RequestLocal(size_t i, std::function<void()> ready) {
  auto self = std::dynamic_pointer_cast<ChunkStream>(InputStream::shared_from_this());
  context_.io->Submit(priority_ - kAhead, [self, i](Scratch&) {
    // A failure is reported when the bytes are read.
    static_cast<void>(CatchParquet([&] { return self->BringAhead(self->extents_[i]); }));
  });
  context_.io->Submit(
      priority_, [self = std::move(self), i, ready = std::move(ready)](Scratch&) {
        self->Bring(i, [&] { return self->ReadLocal(self->extents_[i]); });
        if (ready) ready();
      });
}

void ChunkStream::RequestRemote(size_t i, std::function<void()> ready) {
  auto self = std::dynamic_pointer_cast<ChunkStream>(InputStream::shared_from_this());
  const Extent& extent = extents_[i];
  int64_t asked_ns = 0;  // set by the first asker, if spans are recorded
  if (context_.files->remote()->Ask(extent.read, priority_, cancelled_)) {
    context_.counters->read_requests += 1;
    context_.counters->read_bytes += extent.read->range().bytes;
    if (context_.spans != nullptr && context_.spans->on()) asked_ns = NowNs();
  }
  const bool waits = ready != nullptr;
  const auto arrived = [self = std::move(self), i, ready = std::move(ready), asked_ns] {
    if (asked_ns != 0) {
      self->context_.spans->Add(
          Stage::kRequest, asked_ns, NowNs(),
          {.index = self->file_, .bytes = self->extents_[i].read->range().bytes});
    }
    self->Bring(i, [&] { return TakeRemote(self->extents_[i]); });
    if (ready) ready();
  };
  if (extent.read->Then(arrived)) return;
  // The caller of Start holds locks that `ready` takes.
  if (waits) {
    context_.io->Submit(priority_, [arrived](Scratch&) { arrived(); });
  } else {
    arrived();
  }
}

Status ChunkStream::BringAhead(const Extent& extent) const {
  if (*cancelled_) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto file, context_.files->Open(file_));
  return ForEachPart(ranges_, extent.start, extent.bytes, [&](const ByteRange& part) {
    file->BringAhead(part);
    return Status::OK();
  });
}

Result<std::shared_ptr<arrow::Buffer>> ChunkStream::ReadLocal(const Extent& extent) {
  if (*cancelled_) return PassClosed();
  ARROW_ASSIGN_OR_RAISE(auto block, context_.pool->Allocate(extent.bytes));
  ARROW_ASSIGN_OR_RAISE(const auto file, context_.files->Open(file_));
  const SpanTimer span(context_.spans, Stage::kRead,
                       {.index = file_, .bytes = extent.bytes});
  ARROW_RETURN_NOT_OK(
      ReadRanges(context_, *file, ranges_, extent.start, extent.bytes, block->data()));
  return BlockSlice(std::move(block), 0, extent.bytes);
}

Result<std::shared_ptr<arrow::Buffer>> ChunkStream::TakeRemote(const Extent& extent) {
  ARROW_ASSIGN_OR_RAISE(auto bytes, extent.read->bytes());
  return arrow::SliceBuffer(std::move(bytes), extent.offset, extent.bytes);
}

void ChunkStream::Fill(size_t i, Status status,
                       std::shared_ptr<arrow::Buffer> bytes) noexcept {
  std::lock_guard lock(mutex_);
  Segment& segment = segments_[i];
  segment.done = true;
  segment.bytes = std::move(bytes);
  segment.status = std::move(status);
  arrived_.notify_all();
}

Result<std::shared_ptr<arrow::Buffer>> ChunkStream::Wait(size_t i) {
  Request(i, nullptr);
  Request(Current() + 1, nullptr);
  std::unique_lock lock(mutex_);
  while (!segments_[i].done) {
    lock.unlock();
    const bool ran = context_.io->RunOne();
    lock.lock();
    if (ran) continue;
    const WorkTimer waiting(nullptr);
    arrived_.wait(lock, [&] { return segments_[i].done; });
  }
  if (!segments_[i].status.ok()) return segments_[i].status;
  return segments_[i].bytes;
}

void ChunkStream::Release() {
  const size_t end = Current();
  std::vector<std::shared_ptr<arrow::Buffer>> dead;
  std::lock_guard lock(mutex_);
  for (size_t i = end; i > 0 && segments_[i - 1].bytes; --i) {
    dead.push_back(std::move(segments_[i - 1].bytes));
    extents_[i - 1].read.reset();
  }
}

arrow::Result<int64_t> ChunkStream::Read(int64_t bytes, void* out) {
  int64_t copied = 0;
  bytes = std::min(bytes, bytes_ - position_);
  while (copied < bytes) {
    const size_t i = Current();
    ARROW_ASSIGN_OR_RAISE(auto segment, Wait(i));
    const int64_t from = position_ - extents_[i].start;
    const int64_t n = std::min(bytes - copied, extents_[i].bytes - from);
    std::memcpy(static_cast<uint8_t*>(out) + copied, segment->data() + from,
                static_cast<size_t>(n));
    copied += n;
    position_ += n;
    Release();
  }
  return copied;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ChunkStream::Read(int64_t bytes) {
  bytes = std::clamp<int64_t>(bytes, 0, bytes_ - position_);
  if (bytes == 0) return std::make_shared<arrow::Buffer>(nullptr, 0);
  const size_t i = Current();
  const int64_t from = position_ - extents_[i].start;
  if (from + bytes <= extents_[i].bytes) {
    ARROW_ASSIGN_OR_RAISE(auto segment, Wait(i));
    position_ += bytes;
    Release();
    return arrow::SliceBuffer(std::move(segment), from, bytes);
  }
  ARROW_ASSIGN_OR_RAISE(auto joined, context_.pool->Allocate(bytes));
  ARROW_RETURN_NOT_OK(Read(bytes, joined->data()).status());
  return BlockSlice(std::move(joined), 0, bytes);
}

arrow::Result<std::string_view> ChunkStream::Peek(int64_t bytes) {
  bytes = std::min(bytes, bytes_ - position_);
  if (bytes <= 0) return std::string_view();
  const size_t i = Current();
  const int64_t from = position_ - extents_[i].start;
  ARROW_ASSIGN_OR_RAISE(auto segment, Wait(i));
  if (from + bytes <= extents_[i].bytes) {
    return std::string_view(reinterpret_cast<const char*>(segment->data() + from),
                            static_cast<size_t>(bytes));
  }
  // Few headers straddle a segment, and a header of usual size never needs a third
  // segment.
  peeked_.assign(segment->data() + from, segment->data() + extents_[i].bytes);
  for (size_t next = i + 1; static_cast<int64_t>(peeked_.size()) < bytes; ++next) {
    ARROW_ASSIGN_OR_RAISE(segment, Wait(next));
    const int64_t more =
        std::min(bytes - static_cast<int64_t>(peeked_.size()), extents_[next].bytes);
    peeked_.insert(peeked_.end(), segment->data(), segment->data() + more);
  }
  return std::string_view(reinterpret_cast<const char*>(peeked_.data()), peeked_.size());
}

}  // namespace fastload
