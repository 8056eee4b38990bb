#include "fastload/decode/pages/page_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fastload/base/status.h"
#include "fastload/decode/pages/snappy.h"
#include "parquet/column_page.h"

namespace fastload {
namespace {

// A footer may state too small a size by this many bytes, in case a writer counts in
// another way: a page of the usual size is then read all the same.
constexpr int64_t kSlackBytes = 1 << 20;

// Arrow's buffers round sizes up to a multiple of this number.
constexpr int64_t kRounding = 64;

// A pool that refuses buffers of more than `most` bytes.
class PageMemory final : public arrow::MemoryPool {
 public:
  PageMemory(arrow::MemoryPool* base, int64_t most) : base_(base), most_(most) {}

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    ARROW_RETURN_NOT_OK(Check(size));
    return base_->Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override {
    ARROW_RETURN_NOT_OK(Check(new_size));
    return base_->Reallocate(old_size, new_size, alignment, ptr);
  }
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override {
    base_->Free(buffer, size, alignment);
  }

  int64_t bytes_allocated() const override { return base_->bytes_allocated(); }
  int64_t max_memory() const override { return base_->max_memory(); }
  int64_t total_bytes_allocated() const override {
    return base_->total_bytes_allocated();
  }
  int64_t num_allocations() const override { return base_->num_allocations(); }
  std::string backend_name() const override { return base_->backend_name(); }

 private:
  Status Check(int64_t size) const {
    if (size - kRounding < most_) return Status::OK();
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a page of at most " + std::to_string(most_) +
                         " bytes after decompression, got one of " +
                         std::to_string(size));
  }

  arrow::MemoryPool* const base_;
  const int64_t most_;
};

// Pages, and the pool of their memory.
class LimitedPages final : public parquet::PageReader {
 public:
  LimitedPages(std::unique_ptr<arrow::MemoryPool> pool,
               std::unique_ptr<parquet::PageReader> pages)
      : pool_(std::move(pool)), pages_(std::move(pages)) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    // The base class stores the filter, but only `pages_` can apply the filter.
    if (data_page_filter_ != nullptr) {
      pages_->set_data_page_filter(std::exchange(data_page_filter_, nullptr));
    }
    return pages_->NextPage();
  }

  void set_max_page_header_size(uint32_t size) override {
    pages_->set_max_page_header_size(size);
  }

 private:
  const std::unique_ptr<arrow::MemoryPool> pool_;  // outlives pages_
  const std::unique_ptr<parquet::PageReader> pages_;
};

}  // namespace

int64_t MostExpanded(parquet::Compression::type codec, int64_t bytes) {
  int64_t expansion = INT64_MAX;
  switch (codec) {
    case parquet::Compression::UNCOMPRESSED:
      return bytes;
    case parquet::Compression::SNAPPY:
      expansion = kSnappyExpansion;
      break;
    case parquet::Compression::GZIP:
      // Two bits, one for a length and one for a distance, copy at most 258 bytes.
      expansion = 1032;
      break;
    case parquet::Compression::LZ4:
    case parquet::Compression::LZ4_HADOOP:
    case parquet::Compression::LZ4_FRAME:
      // Each further byte of a length adds at most 255 bytes.
      expansion = 255;
      break;
    case parquet::Compression::ZSTD:
      // The smallest block has 4 bytes, and makes at most 128 KiB.
      expansion = (128 << 10) / 4;
      break;
    default:
      break;
  }
  if (bytes > INT64_MAX / expansion) return INT64_MAX;
  return bytes * expansion;
}

int64_t MostPageBytes(parquet::Compression::type codec, int64_t compressed,
                      int64_t uncompressed) {
  const int64_t said = std::clamp<int64_t>(uncompressed, 0, INT64_MAX - kSlackBytes);
  return std::min(said + kSlackBytes, MostExpanded(codec, compressed));
}

std::unique_ptr<parquet::PageReader> LimitPages(
    arrow::MemoryPool* pool, int64_t most_bytes,
    const std::function<std::unique_ptr<parquet::PageReader>(arrow::MemoryPool*)>& open) {
  auto limited = std::make_unique<PageMemory>(pool, most_bytes);
  auto pages = open(limited.get());
  return std::make_unique<LimitedPages>(std::move(limited), std::move(pages));
}

}  // namespace fastload
