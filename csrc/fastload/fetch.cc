#include "fastload/fetch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace fastload {

ChunkStream::ChunkStream(const FetchContext& context, int32_t file,
                         std::vector<ByteRange> ranges, int64_t segment_bytes,
                         int64_t priority,
                         std::shared_ptr<const std::atomic<bool>> cancelled)
    : context_(context),
      file_(file),
      ranges_(std::move(ranges)),
      bytes_(std::accumulate(
          ranges_.begin(), ranges_.end(), int64_t{0},
          [](int64_t sum, const ByteRange& range) { return sum + range.bytes; })),
      segment_bytes_(segment_bytes),
      priority_(priority),
      cancelled_(std::move(cancelled)),
      segments_(static_cast<size_t>((bytes_ + segment_bytes - 1) / segment_bytes)) {}

ChunkStream::~ChunkStream() = default;

int64_t ChunkStream::MemoryBytes() const { return std::min(bytes_, 2 * segment_bytes_); }

int64_t ChunkStream::SegmentStart(size_t i) const {
  return static_cast<int64_t>(i) * segment_bytes_;
}

int64_t ChunkStream::SegmentBytes(size_t i) const {
  return std::min(segment_bytes_, bytes_ - SegmentStart(i));
}

size_t ChunkStream::SegmentAt(int64_t position) const {
  return static_cast<size_t>(position / segment_bytes_);
}

void ChunkStream::Start(std::function<void()> ready) {
  if (segments_.empty()) {
    context_.io->Submit(priority_, [ready = std::move(ready)](Scratch&) { ready(); });
  } else {
    Request(0, std::move(ready));
  }
}

void ChunkStream::Request(size_t i, std::function<void()> ready) {
  {
    std::lock_guard lock(mutex_);
    if (i >= segments_.size() || std::exchange(segments_[i].requested, true)) return;
  }
  auto self = std::dynamic_pointer_cast<ChunkStream>(InputStream::shared_from_this());
  context_.io->Submit(priority_,
                      [self = std::move(self), i, ready = std::move(ready)](Scratch&) {
                        self->Fill(i);
                        if (ready) ready();
                      });
}

void ChunkStream::Fill(size_t i) {
  Result<std::shared_ptr<Block>> block = [&]() -> Result<std::shared_ptr<Block>> {
    if (*cancelled_) return MakeError(ErrorKind::kClosed, "The pass was closed");
    ARROW_ASSIGN_OR_RAISE(auto block, context_.pool->Allocate(SegmentBytes(i)));
    ARROW_RETURN_NOT_OK(ReadRanges(SegmentStart(i), SegmentBytes(i), block->data()));
    return block;
  }();
  std::lock_guard lock(mutex_);
  Segment& segment = segments_[i];
  segment.done = true;
  segment.status = block.status();
  if (block.ok()) segment.block = *std::move(block);
  arrived_.notify_all();
}

Status ChunkStream::ReadRanges(int64_t position, int64_t bytes, uint8_t* out) {
  ARROW_ASSIGN_OR_RAISE(auto file, context_.files->Open(file_));
  Timer timer(&context_.counters->read_ns);
  for (const ByteRange& range : ranges_) {
    if (position >= range.bytes) {
      position -= range.bytes;
      continue;
    }
    const int64_t n = std::min(bytes, range.bytes - position);
    if (n == 0) break;
    ARROW_RETURN_NOT_OK(file->ReadAt(range.offset + position, n, out));
    context_.counters->read_requests += 1;
    context_.counters->read_bytes += n;
    out += n;
    bytes -= n;
    position = 0;
  }
  return Status::OK();
}

Result<std::shared_ptr<Block>> ChunkStream::Wait(size_t i) {
  Request(i, nullptr);
  Request(SegmentAt(position_) + 1, nullptr);
  std::unique_lock lock(mutex_);
  while (!segments_[i].done) {
    lock.unlock();
    const bool ran = context_.io->RunOne();
    lock.lock();
    if (!ran) arrived_.wait(lock, [&] { return segments_[i].done; });
  }
  if (!segments_[i].status.ok()) return segments_[i].status;
  return segments_[i].block;
}

void ChunkStream::Release() {
  const size_t end = position_ < bytes_ ? SegmentAt(position_) : segments_.size();
  std::vector<std::shared_ptr<Block>> dead;
  std::lock_guard lock(mutex_);
  for (size_t i = end; i > 0 && segments_[i - 1].block; --i) {
    dead.push_back(std::move(segments_[i - 1].block));
  }
}

arrow::Result<int64_t> ChunkStream::Read(int64_t bytes, void* out) {
  int64_t copied = 0;
  bytes = std::min(bytes, bytes_ - position_);
  while (copied < bytes) {
    const size_t i = SegmentAt(position_);
    ARROW_ASSIGN_OR_RAISE(auto block, Wait(i));
    const int64_t from = position_ - SegmentStart(i);
    const int64_t n = std::min(bytes - copied, SegmentBytes(i) - from);
    std::memcpy(static_cast<uint8_t*>(out) + copied, block->data() + from,
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
  const size_t i = SegmentAt(position_);
  const int64_t from = position_ - SegmentStart(i);
  if (from + bytes <= SegmentBytes(i)) {
    ARROW_ASSIGN_OR_RAISE(auto block, Wait(i));
    position_ += bytes;
    Release();
    return BlockSlice(std::move(block), from, bytes);
  }
  ARROW_ASSIGN_OR_RAISE(auto joined, context_.pool->Allocate(bytes));
  ARROW_RETURN_NOT_OK(Read(bytes, joined->data()).status());
  return BlockSlice(std::move(joined), 0, bytes);
}

arrow::Result<std::string_view> ChunkStream::Peek(int64_t bytes) {
  bytes = std::min(bytes, bytes_ - position_);
  if (bytes <= 0) return std::string_view();
  const size_t i = SegmentAt(position_);
  const int64_t from = position_ - SegmentStart(i);
  ARROW_ASSIGN_OR_RAISE(auto block, Wait(i));
  if (from + bytes <= SegmentBytes(i)) {
    return std::string_view(reinterpret_cast<const char*>(block->data() + from),
                            static_cast<size_t>(bytes));
  }
  // Few headers straddle a segment, and none of usual size needs a third one.
  peeked_.assign(block->data() + from, block->data() + SegmentBytes(i));
  for (size_t next = i + 1; static_cast<int64_t>(peeked_.size()) < bytes; ++next) {
    ARROW_ASSIGN_OR_RAISE(block, Wait(next));
    const int64_t more =
        std::min(bytes - static_cast<int64_t>(peeked_.size()), SegmentBytes(next));
    peeked_.insert(peeked_.end(), block->data(), block->data() + more);
  }
  return std::string_view(reinterpret_cast<const char*>(peeked_.data()), peeked_.size());
}

}  // namespace fastload
