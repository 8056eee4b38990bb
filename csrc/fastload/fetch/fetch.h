// The stream of a column chunk that is read on the I/O executor, or brought by a client.
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

// Reads of a remote file, in order, that cover the ranges of a stream. Other streams may
// share the reads.
struct RemoteReads {
  std::vector<std::shared_ptr<RemoteRead>> reads;
  bool at_once = false;  // all reads are requested when the stream starts
};

// A stream in segments. At most two segments are in memory: the segment being read and
// the next one (besides segments that returned buffers keep alive, and segments that a
// Peek reaches into), unless all reads are requested at once. For one consumer. Local
// files are read on the I/O executor.
class ChunkStream final : public ByteStream {
 public:
  // Makes a stream of a local file. Once `*cancelled` is true, reads that have not begun
  // fail at once.
  ChunkStream(const FetchContext& context, int32_t file, std::vector<ByteRange> ranges,
              int64_t segment_bytes, int64_t priority, Cancelled cancelled);
  // Makes a stream of a remote file.
  ChunkStream(const FetchContext& context, int32_t file,
              const std::vector<ByteRange>& ranges, const RemoteReads& reads,
              int64_t priority, Cancelled cancelled);
  ~ChunkStream() override;

  // Requests the first segment, or all segments where reads are requested at once. Where
  // a request throws, `ready` may never be called.
  bool Start(std::function<void()> ready) override;

  int64_t MemoryBytes() const override { return memory_bytes_; }

  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;
  // Returns fewer bytes than asked for only at the end of the chunk.
  arrow::Result<std::string_view> Peek(int64_t bytes) override;

 private:
  struct Extent {
    int64_t start = 0;  // position in the stream
    int64_t bytes = 0;
    std::shared_ptr<RemoteRead> read;  // null: local
    int64_t offset = 0;                // offset in `read`
  };
  struct Segment {
    bool requested = false;
    bool done = false;
    Status status;
    std::shared_ptr<arrow::Buffer> bytes;
  };

  // Requests a segment, once. A segment whose request throws is filled with the failure.
  void Request(size_t i, std::function<void()> ready);
  void RequestLocal(size_t i, std::function<void()> ready);
  void RequestRemote(size_t i, std::function<void()> ready);
  Status BringAhead(const Extent& extent) const;
  Result<std::shared_ptr<arrow::Buffer>> ReadLocal(const Extent& extent);
  static Result<std::shared_ptr<arrow::Buffer>> TakeRemote(const Extent& extent);
  // Fills a segment with what `read` returns or throws.
  template <typename Fn>
  void Bring(size_t i, const Fn& read);
  // Takes no memory. An arrow::Result would take memory to give up its status.
  void Fill(size_t i, Status status, std::shared_ptr<arrow::Buffer> bytes) noexcept;
  // Waits for the segment, and requests the segment behind the one being read.
  Result<std::shared_ptr<arrow::Buffer>> Wait(size_t i);
  // Returns the index of the segment at the position, or the number of segments at the
  // end.
  size_t Current();
  // Releases the segments that have been read.
  void Release();

  const FetchContext context_;
  const int32_t file_;
  const std::vector<ByteRange> ranges_;
  const int64_t bytes_;  // total of all ranges
  const int64_t priority_;
  const Cancelled cancelled_;
  std::vector<Extent> extents_;  // one for each segment
  int64_t memory_bytes_ = 0;
  size_t first_segments_ = 1;  // number of segments that Start requests

  int64_t position_ = 0;
  size_t current_ = 0;
  std::vector<uint8_t> peeked_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable arrived_;
  std::vector<Segment> segments_;
};

}  // namespace fastload
