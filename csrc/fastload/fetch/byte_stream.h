// The bytes of a column chunk, as a stream that its reader consumes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "arrow/io/interfaces.h"
#include "fastload/base/byte_range.h"
#include "fastload/base/counters.h"
#include "fastload/base/executor.h"
#include "fastload/base/memory.h"
#include "fastload/fetch/file_table.h"
#include "fastload/fetch/remote.h"
#include "fastload/source/file.h"

namespace fastload {

// What reading needs; borrowed, and outlives every stream made with it.
struct FetchContext {
  Executor* io = nullptr;
  BlockPool* pool = nullptr;
  FileTable* files = nullptr;
  Counters* counters = nullptr;
  SpanRecorder* spans = nullptr;  // null: none are recorded
};

// The bytes of ranges of a file, one after the other. One consumer.
class ByteStream : public arrow::io::InputStream {
 public:
  // Has the first bytes brought. True: they are at hand. Otherwise `ready` is called
  // once, on another thread, when they are there or have failed; what they failed with
  // comes from the first read.
  virtual bool Start(std::function<void()> ready) = 0;

  // Whether Start never has to wait.
  virtual bool at_hand() const { return false; }

  // Most bytes of it in memory at once.
  virtual int64_t MemoryBytes() const = 0;

  // Nothing is read for a while: lets go of bytes that are cheap to read once more. Most
  // bytes of it in memory until then.
  virtual int64_t Rest() { return MemoryBytes(); }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  bool supports_zero_copy() const override { return true; }
};

// Bytes of all ranges.
int64_t TotalBytes(const std::vector<ByteRange>& ranges);

// Calls fn(ByteRange) for where `bytes` bytes from `position` on of all ranges taken as
// one lie.
template <typename Fn>
Status ForEachPart(const std::vector<ByteRange>& ranges, int64_t position, int64_t bytes,
                   const Fn& fn) {
  for (const ByteRange& range : ranges) {
    if (position >= range.bytes) {
      position -= range.bytes;
      continue;
    }
    const int64_t n = std::min(bytes, range.bytes - position);
    if (n == 0) break;
    ARROW_RETURN_NOT_OK(fn(ByteRange{range.offset + position, n}));
    bytes -= n;
    position = 0;
  }
  return Status::OK();
}

// Reads `bytes` bytes from `position` on of all ranges taken as one, and counts them.
Status ReadRanges(const FetchContext& context, const File& file,
                  const std::vector<ByteRange>& ranges, int64_t position, int64_t bytes,
                  uint8_t* out);

}  // namespace fastload
