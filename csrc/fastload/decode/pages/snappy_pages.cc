#include "fastload/decode/pages/snappy_pages.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "arrow/buffer.h"
#include "fastload/decode/pages/data_pages.h"
#include "fastload/decode/pages/snappy.h"
#include "parquet/column_page.h"
#include "parquet/exception.h"

namespace fastload {
namespace {

class SnappyPageReader final : public parquet::PageReader, public FreesPages {
 public:
  SnappyPageReader(std::unique_ptr<parquet::PageReader> pages, arrow::MemoryPool* pool,
                   int64_t most_bytes)
      : pages_(std::move(pages)), pool_(pool), most_bytes_(most_bytes) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    // The base class stores the filter, but only `pages_` can apply the filter.
    if (data_page_filter_ != nullptr) {
      pages_->set_data_page_filter(std::exchange(data_page_filter_, nullptr));
    }
    auto page = pages_->NextPage();
    if (page == nullptr) return nullptr;
    switch (page->type()) {
      case parquet::PageType::DICTIONARY_PAGE:
        return WithBytes(*page, DecompressedDictionary(*page));
      case parquet::PageType::DATA_PAGE: {
        const auto& data = static_cast<const parquet::DataPageV1&>(*page);
        return WithBytes(data, Decompressed(data, 0, data.uncompressed_size()));
      }
      case parquet::PageType::DATA_PAGE_V2: {
        const auto& data = static_cast<const parquet::DataPageV2&>(*page);
        if (!data.is_compressed()) return page;
        const int64_t levels = int64_t{data.definition_levels_byte_length()} +
                               data.repetition_levels_byte_length();
        return WithBytes(data, Decompressed(data, levels, data.uncompressed_size()));
      }
      default:
        return page;
    }
  }

  void FreePage() override { memory_.reset(); }

  void set_max_page_header_size(uint32_t size) override {
    pages_->set_max_page_header_size(size);
  }

 private:
  // Returns the bytes of a dictionary page. libparquet does not hand on the size in the
  // header of a dictionary page, so the compressed bytes have to state the size.
  std::shared_ptr<arrow::Buffer> DecompressedDictionary(const parquet::Page& page) {
    const std::span<const uint8_t> bytes(page.data(), static_cast<size_t>(page.size()));
    const auto size = SnappySize(bytes);
    if (!size.has_value() || *size > kSnappyExpansion * (page.size() + 1)) {
      throw parquet::ParquetException(
          "Expected a dictionary page in Snappy, got damaged bytes");
    }
    Decompressed(page, 0, *size);
    // The dictionary page is needed until the end of the chunk, so it keeps its memory.
    return std::make_shared<KeptPage>(std::move(memory_), *size);
  }

  // Returns the page's bytes: the first `plain` bytes unchanged, the rest decompressed,
  // `size` bytes in all.
  std::shared_ptr<arrow::Buffer> Decompressed(const parquet::Page& page, int64_t plain,
                                              int64_t size) {
    if (plain < 0 || plain > page.size() || plain > size) {
      throw parquet::ParquetException("Expected levels of at most " +
                                      std::to_string(page.size()) + " bytes, got " +
                                      std::to_string(plain));
    }
    const std::span<const uint8_t> compressed(page.data() + plain,
                                              static_cast<size_t>(page.size() - plain));
    // The size is checked before memory is allocated. Some writers leave out even the
    // size where all values are null.
    const bool none = size == plain && compressed.empty();
    if (!none &&
        (SnappySize(compressed) != size - plain ||
         size - plain > kSnappyExpansion * static_cast<int64_t>(compressed.size()))) {
      throw parquet::ParquetException("Expected a page of " +
                                      std::to_string(size - plain) +
                                      " bytes in Snappy, got another size");
    }
    Reserve(size + kSnappySlack);
    uint8_t* out = memory_->mutable_data();
    if (plain > 0) std::memcpy(out, page.data(), static_cast<size_t>(plain));
    if (!none && !SnappyDecompress(compressed, out + plain, size - plain)) {
      throw parquet::ParquetException("Expected a page in Snappy, got damaged bytes");
    }
    return std::make_shared<arrow::Buffer>(out, size);
  }

  void Reserve(int64_t bytes) {
    if (memory_ != nullptr && memory_->size() >= bytes) return;
    if (bytes - kSnappySlack > most_bytes_) {
      throw parquet::ParquetException("Expected a page of at most " +
                                      std::to_string(most_bytes_) +
                                      " bytes after decompression, got one of " +
                                      std::to_string(bytes - kSnappySlack));
    }
    memory_.reset();  // frees the old memory first, which need not be copied
    PARQUET_ASSIGN_OR_THROW(memory_, arrow::AllocateBuffer(bytes, pool_));
  }

  const std::unique_ptr<parquet::PageReader> pages_;
  arrow::MemoryPool* const pool_;
  const int64_t most_bytes_;
  std::unique_ptr<arrow::Buffer> memory_;  // memory of the current page
};

}  // namespace

std::unique_ptr<parquet::PageReader> DecompressSnappyPages(
    std::unique_ptr<parquet::PageReader> pages, arrow::MemoryPool* pool,
    int64_t most_bytes) {
  return std::make_unique<SnappyPageReader>(std::move(pages), pool, most_bytes);
}

}  // namespace fastload
