// The bytes of a column chunk as a stream, which a reader consumes.
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

// The objects that reading needs. All are borrowed, and outlive every stream made with
// the context.
// The largest hole between two pages that is read along, because reading the hole takes
// less time than another call.
inline constexpr int64_t kPageHoleBytes = 64 << 10;

class PageTables;

struct FetchContext {
  Executor* io = nullptr;
  BlockPool* pool = nullptr;
  FileTable* files = nullptr;
  Counters* counters = nullptr;
  SpanRecorder* spans = nullptr;  // null: no spans are recorded
  int64_t page_hole_bytes = kPageHoleBytes;
  // Keeps which pages there are; null: page indexes are read again each time.
  PageTables* tables = nullptr;
};

// The bytes of several ranges of a file, one after another. For one consumer.
class ByteStream : public arrow::io::InputStream {
 public:
  // Requests the first bytes. Returns true if they are available already. Otherwise calls
  // `ready` once, on another thread, when the bytes have arrived or failed; the first
  // read then returns the failure. `ready` must not throw.
  virtual bool Start(std::function<void()> ready) = 0;

  // Returns true if Start never has to wait.
  virtual bool at_hand() const { return false; }

  // Returns the most bytes that the stream holds in memory at once.
  virtual int64_t MemoryBytes() const = 0;

  // Releases bytes that are cheap to read again, because the stream is not read for a
  // while. Returns the most bytes that the stream holds in memory until the next read.
  virtual int64_t Rest() { return MemoryBytes(); }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  bool supports_zero_copy() const override { return true; }
};

// Returns the total bytes of all ranges.
int64_t TotalBytes(const std::vector<ByteRange>& ranges);

// Treats all ranges as one sequence of bytes, and calls fn(ByteRange) for each part of
// the file that holds the `bytes` bytes from `position` on.
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

// Treats all ranges as one sequence of bytes, reads the `bytes` bytes from `position` on,
// and counts the read.
Status ReadRanges(const FetchContext& context, const File& file,
                  const std::vector<ByteRange>& ranges, int64_t position, int64_t bytes,
                  uint8_t* out);

}  // namespace fastload
