// The stream of a column chunk of a local file in the page cache, read by the consumer
// itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fastload/fetch/byte_stream.h"

namespace fastload {

// A stream that reads one page at a time, or the rest of a small chunk, just before the
// page is decoded. No read waits for another thread, and copied bytes are still in the
// CPU's caches. If the bytes have left the page cache meanwhile, a read waits for the
// disk.
class CachedStream final : public ByteStream {
 public:
  // `opened` is the file with index `file`; the stream opens the file again if the file
  // has been closed meanwhile. `memory_bytes` is what MemoryBytes returns.
  CachedStream(const FetchContext& context, int32_t file, std::weak_ptr<File> opened,
               std::vector<ByteRange> ranges, int64_t memory_bytes, Cancelled cancelled);

  bool Start(std::function<void()> /*ready*/) override { return true; }
  bool at_hand() const override { return true; }
  int64_t MemoryBytes() const override { return memory_bytes_; }
  int64_t Rest() override;

  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;
  // Returns fewer bytes than asked for only at the end of the chunk.
  arrow::Result<std::string_view> Peek(int64_t bytes) override;

 private:
  // Ensures that block_ holds `bytes` bytes from the position on.
  Status Load(int64_t bytes);

  const FetchContext context_;
  const int32_t file_;
  std::weak_ptr<File> opened_;
  const std::vector<ByteRange> ranges_;
  const int64_t bytes_;  // total of all ranges
  const int64_t memory_bytes_;
  const Cancelled cancelled_;

  int64_t position_ = 0;
  std::shared_ptr<Block> block_;
  int64_t block_start_ = 0;  // position in the stream
  int64_t block_end_ = 0;
  // Reads in small steps from now on, because the stream may rest again.
  bool rested_ = false;
};

}  // namespace fastload
