#include "fastload/fetch/cached_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fastload {
namespace {

// The bytes read beyond the requested bytes: libparquet looks at this many bytes for the
// header of the next page.
constexpr int64_t kHeaderBytes = 16 << 10;

// If no more bytes than this are left of a chunk, all are read at once, rather than a
// page's header, the page, and the rest: the bytes stay in the L2 cache.
constexpr int64_t kWholeBytes = 128 << 10;

// A resting stream may hold up to this many bytes if some of the bytes are still unread,
// because reading these bytes again costs more.
constexpr int64_t kRestBytes = 64 << 10;

}  // namespace

CachedStream::CachedStream(const FetchContext& context, int32_t file,
                           std::weak_ptr<File> opened, std::vector<ByteRange> ranges,
                           int64_t memory_bytes, Cancelled cancelled)
    : context_(context),
      file_(file),
      opened_(std::move(opened)),
      ranges_(std::move(ranges)),
      bytes_(TotalBytes(ranges_)),
      memory_bytes_(memory_bytes),
      cancelled_(std::move(cancelled)) {}

Status CachedStream::Load(int64_t bytes) {
  if (position_ + bytes <= block_end_) return Status::OK();
  if (*cancelled_) return PassClosed();
  const int64_t left = bytes_ - position_;
  const int64_t wanted =
      left <= kWholeBytes && !rested_ ? left : std::min(bytes + kHeaderBytes, left);
  ARROW_ASSIGN_OR_RAISE(auto block, context_.pool->Allocate(wanted));
  // The rest of the previous block is not read again.
  const int64_t kept = std::max<int64_t>(block_end_ - position_, 0);
  if (kept > 0) {
    std::memcpy(block->data(), block_->data() + (position_ - block_start_),
                static_cast<size_t>(kept));
  }
  auto file = opened_.lock();
  if (file == nullptr) {
    ARROW_ASSIGN_OR_RAISE(file, context_.files->Open(file_));
    opened_ = file;
  }
  ARROW_RETURN_NOT_OK(ReadRanges(context_, *file, ranges_, position_ + kept,
                                 wanted - kept, block->data() + kept));
  block_ = std::move(block);
  block_start_ = position_;
  block_end_ = position_ + wanted;
  return Status::OK();
}

int64_t CachedStream::Rest() {
  if (block_ == nullptr) return 0;
  if (position_ < block_end_ && block_->size() <= kRestBytes) return block_->size();
  block_.reset();
  block_end_ = position_;
  rested_ = true;
  return 0;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> CachedStream::Read(int64_t bytes) {
  bytes = std::clamp<int64_t>(bytes, 0, bytes_ - position_);
  if (bytes == 0) return std::make_shared<arrow::Buffer>(nullptr, 0);
  ARROW_RETURN_NOT_OK(Load(bytes));
  auto read = BlockSlice(block_, position_ - block_start_, bytes);
  position_ += bytes;
  return read;
}

arrow::Result<int64_t> CachedStream::Read(int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const auto read, Read(bytes));
  if (read->size() > 0) std::memcpy(out, read->data(), static_cast<size_t>(read->size()));
  return read->size();
}

arrow::Result<std::string_view> CachedStream::Peek(int64_t bytes) {
  bytes = std::min(bytes, bytes_ - position_);
  if (bytes <= 0) return std::string_view();
  ARROW_RETURN_NOT_OK(Load(bytes));
  return std::string_view(
      reinterpret_cast<const char*>(block_->data()) + (position_ - block_start_),
      static_cast<size_t>(bytes));
}

}  // namespace fastload
