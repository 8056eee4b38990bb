// Bytes of column chunks: read on the I/O executor, or brought by a client; consumed as a
// stream.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/fetch/byte_stream.h"
#include "fastload/fetch/remote.h"

namespace fastload {

// Reads of a remote file, in order, that cover the ranges of a stream; other streams may
// share them.
struct RemoteReads {
  std::vector<std::shared_ptr<RemoteRead>> reads;
  bool at_once = false;  // all are asked for when the stream starts
};

// The bytes of ranges of a file, one after the other, in segments, of which two at most
// are in memory: the one being read and the one after it (beside those that buffers
// handed out keep, and those that a Peek reaches into), unless reads come all at once.
// One consumer; reads of local files come from the I/O executor.
class ChunkStream final : public ByteStream {
 public:
  // `cancelled`, once true, makes reads that have not begun fail at once.
  ChunkStream(const FetchContext& context, int32_t file, std::vector<ByteRange> ranges,
              int64_t segment_bytes, int64_t priority, Cancelled cancelled);
  // Of a remote file.
  ChunkStream(const FetchContext& context, int32_t file,
              const std::vector<ByteRange>& ranges, const RemoteReads& reads,
              int64_t priority, Cancelled cancelled);
  ~ChunkStream() override;

  // Asks for the first segment, or for all where they come at once.
  bool Start(std::function<void()> ready) override;

  int64_t MemoryBytes() const override { return memory_bytes_; }

  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;
  // Fewer bytes than asked for only at the end of the chunk.
  arrow::Result<std::string_view> Peek(int64_t bytes) override;

 private:
  struct Extent {
    int64_t start = 0;  // of the stream
    int64_t bytes = 0;
    std::shared_ptr<RemoteRead> read;  // null: local
    int64_t offset = 0;                // in that
  };
  struct Segment {
    bool requested = false;
    bool done = false;
    Status status;
    std::shared_ptr<arrow::Buffer> bytes;
  };

  void Request(size_t i, std::function<void()> ready);
  void RequestRemote(size_t i, std::function<void()> ready);
  Status BringAhead(const Extent& extent) const;
  Result<std::shared_ptr<arrow::Buffer>> ReadLocal(const Extent& extent);
  static Result<std::shared_ptr<arrow::Buffer>> TakeRemote(const Extent& extent);
  void Fill(size_t i, Result<std::shared_ptr<arrow::Buffer>> bytes);
  // Waits for the segment, and asks for the one after that being read.
  Result<std::shared_ptr<arrow::Buffer>> Wait(size_t i);
  // The segment that the position lies in; their number at the end.
  size_t Current();
  // Lets go of the segments that have been read.
  void Release();

  const FetchContext context_;
  const int32_t file_;
  const std::vector<ByteRange> ranges_;
  const int64_t bytes_;  // of all ranges
  const int64_t priority_;
  const Cancelled cancelled_;
  std::vector<Extent> extents_;  // of the segments
  int64_t memory_bytes_ = 0;
  size_t first_segments_ = 1;  // asked for when it starts

  int64_t position_ = 0;
  size_t current_ = 0;
  std::vector<uint8_t> peeked_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Segment> segments_;
};

}  // namespace fastload
