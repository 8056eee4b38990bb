// The data pages of one column chunk, front to back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "arrow/buffer.h"
#include "arrow/memory_pool.h"
#include "fastload/base/status.h"
#include "parquet/column_page.h"
#include "parquet/column_reader.h"

namespace fastload {

// Bytes of a page that stay valid as long as this buffer is held. The bytes of other
// pages are valid until the next page is read.
class KeptPage final : public arrow::Buffer {
 public:
  // `memory` has at least `size` bytes.
  KeptPage(std::shared_ptr<arrow::Buffer> memory, int64_t size)
      : arrow::Buffer(std::move(memory), 0, size) {}
};

// Returns a page with the header of `page` and other bytes, which are not compressed;
// null for pages of another type than dictionary pages and data pages.
std::shared_ptr<parquet::Page> WithBytes(const parquet::Page& page,
                                         const std::shared_ptr<arrow::Buffer>& bytes);

// The entries of a dictionary as a PageValues decoded them. Immutable.
class DecodedDictionary {
 public:
  virtual ~DecodedDictionary() = default;
  virtual int64_t bytes() const = 0;
};

// Where the decoded dictionary of a column chunk stays from one read to the next.
struct DictionaryPlace {
  // The dictionary, which the pages lack; null: the pages begin with the dictionary page,
  // if the chunk has one.
  std::shared_ptr<const DecodedDictionary> kept;
  // Called with the dictionary once the dictionary is decoded; null: nobody keeps the
  // dictionary.
  std::function<void(std::shared_ptr<const DecodedDictionary>)> keep;
};

// A decoder of the values (without nulls) of pages.
class PageValues {
 public:
  virtual ~PageValues() = default;

  virtual Status SetDictionary(const parquet::DictionaryPage& page) = 0;

  // Returns the dictionary that was set last, for later readers of the same column chunk
  // as the same column; null if the dictionary can't be shared.
  virtual std::shared_ptr<const DecodedDictionary> ShareDictionary() { return nullptr; }
  // Sets a dictionary that ShareDictionary of such a reader returned.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): overrides keep it
  virtual void SetShared(std::shared_ptr<const DecodedDictionary> /*dictionary*/) {}

  // Takes the memory of the page that SetPage sets next, whose index is `number`; null:
  // the memory is lost when the page after is read.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): overrides keep it
  virtual void KeepPage(std::shared_ptr<arrow::Buffer> /*page*/, int64_t /*number*/) {}

  // Sets the values of a data page: `size` bytes, borrowed until the next call, that hold
  // at most `max_values` values.
  virtual Status SetPage(parquet::Encoding::type encoding, const uint8_t* data,
                         int64_t size, int64_t max_values) = 0;

  virtual Status Skip(int64_t values) = 0;

  // Returns the bytes of the page's values that are not decoded yet; nullopt unless
  // MoveTo can move them.
  virtual std::optional<std::span<const uint8_t>> Left() const { return std::nullopt; }
  // The bytes that Left returns have moved to `data`.
  virtual void MoveTo(const uint8_t* /*data*/) {}
};

// No values: pages are read for their levels alone.
class NoValues final : public PageValues {
 public:
  Status SetDictionary(const parquet::DictionaryPage& /*page*/) override {
    return Status::OK();
  }
  Status SetPage(parquet::Encoding::type /*encoding*/, const uint8_t* /*data*/,
                 int64_t /*size*/, int64_t /*max_values*/) override {
    return Status::OK();
  }
  Status Skip(int64_t /*values*/) override { return Status::OK(); }
};

// A reader of pages that can free the memory of the page that it has returned last.
class FreesPages {
 public:
  virtual ~FreesPages() = default;
  // Returns false if the page stays in memory whatever FreePage does.
  virtual bool CanFreePage() const { return true; }
  virtual void FreePage() = 0;
};

// A walk over the data pages of a column chunk. Lets exceptions of libparquet pass;
// callers use CatchParquet.
class DataPages {
 public:
  // Returns true if a data page is skipped, without being decompressed.
  using PassOver = std::function<bool(const parquet::DataPageStats&)>;

  // `values` is borrowed, and outlives the walk; so is `counter` of the pages that Next
  // returns, if not null, and the pool of KeepLeft.
  DataPages(std::unique_ptr<parquet::PageReader> pages, PageValues* values,
            PassOver pass_over, std::atomic<int64_t>* counter = nullptr,
            arrow::MemoryPool* pool = arrow::default_memory_pool(),
            DictionaryPlace dictionary = {});
  DataPages(const DataPages&) = delete;  // the page filter points to it
  DataPages& operator=(const DataPages&) = delete;

  // Returns the next page, which is valid until the next call, or null at the end of the
  // chunk. Passes a dictionary page on the way to the PageValues.
  Result<const parquet::DataPage*> Next();

  // Passes the values of the page, which begin at `offset`, to the PageValues.
  Status SetValues(int64_t offset);

  // Copies the page's first `levels` bytes and the bytes that are left of its values, and
  // frees the rest of the page's memory. Returns the bytes of the levels; null if all
  // stays as it is, because the page can't be freed, or memory is short. `*from` is where
  // the levels were.
  const uint8_t* KeepLeft(int64_t levels, const uint8_t** from);

  // Frees the memory of the page, of which nothing is left to read.
  void Free();

  // Returns the index of the page; skipped pages count.
  int64_t page() const { return page_; }

 private:
  std::unique_ptr<parquet::PageReader> pages_;
  PageValues* values_;
  std::atomic<int64_t>* const counter_;
  arrow::MemoryPool* const pool_;
  FreesPages* const frees_;              // pages_; null: that frees no pages
  std::unique_ptr<arrow::Buffer> left_;  // what is left of a page that was freed
  std::shared_ptr<parquet::Page> current_;
  const DictionaryPlace dictionary_;
  bool has_dictionary_ = false;
  int64_t page_ = -1;
};

}  // namespace fastload
