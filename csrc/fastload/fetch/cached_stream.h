// Bytes of a local file that the system holds in its page cache, read by who consumes
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fastload/fetch/byte_stream.h"

namespace fastload {

// Reads a page at a time, or what is left of a small chunk, just before it is decoded:
// nothing waits for another thread, and what was copied is still in the CPU's caches.
// Should the bytes have left the page cache meanwhile, the read waits for the disk.
class CachedStream final : public ByteStream {
 public:
  // `memory_bytes`: what it counts for while it is read.
  CachedStream(const FetchContext& context, std::shared_ptr<File> file,
               std::vector<ByteRange> ranges, int64_t memory_bytes, Cancelled cancelled);

  bool Start(std::function<void()> /*ready*/) override { return true; }
  bool at_hand() const override { return true; }
  int64_t MemoryBytes() const override { return memory_bytes_; }
  int64_t Rest() override;

  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;
  // Fewer bytes than asked for only at the end of the chunk.
  arrow::Result<std::string_view> Peek(int64_t bytes) override;

 private:
  // Has `bytes` bytes from the position on in `block_`.
  Status Load(int64_t bytes);

  const FetchContext context_;
  const std::shared_ptr<File> file_;
  const std::vector<ByteRange> ranges_;
  const int64_t bytes_;  // of all ranges
  const int64_t memory_bytes_;
  const Cancelled cancelled_;

  int64_t position_ = 0;
  std::shared_ptr<Block> block_;
  int64_t block_start_ = 0;  // in the stream
  int64_t block_end_ = 0;
  bool rested_ = false;  // small steps from now on: it may come to rest again
};

}  // namespace fastload
