#include "fastload/decode/pages/kept_pages.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "fastload/decode/pages/data_pages.h"

namespace fastload {
namespace {

// A page header takes at least this many bytes of a chunk, so padded pages take no more
// bytes than the chunk.
constexpr int64_t kPageAlignment = 8;
// Bytes of the objects of a page, with its buffers.
constexpr int64_t kObjectBytes = 512;
// The first pages of a chunk, of about so many bytes, have a piece of memory each, so
// that the first pages of many chunks share huge pages: the first batch waits for these
// pages. The other pages share one piece.
constexpr int64_t kFirstBytes = int64_t{1} << 20;

class KeptReader final : public parquet::PageReader {
 public:
  explicit KeptReader(std::shared_ptr<const KeptChunk> chunk)
      : chunk_(std::move(chunk)) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    while (next_ < chunk_->pages().size()) {
      const std::shared_ptr<parquet::Page>& page = chunk_->pages()[next_++];
      if (!PassedOver(*page)) return page;
    }
    return nullptr;
  }

  void set_max_page_header_size(uint32_t /*size*/) override {}

  // Returns true if the filter leaves out the page.
  bool PassedOver(const parquet::Page& page) const {
    if (data_page_filter_ == nullptr) return false;
    if (page.type() == parquet::PageType::DICTIONARY_PAGE) return false;
    std::optional<int32_t> rows;
    if (page.type() == parquet::PageType::DATA_PAGE_V2) {
      rows = static_cast<const parquet::DataPageV2&>(page).num_rows();
    }
    return data_page_filter_(parquet::DataPageStats(
        nullptr, static_cast<const parquet::DataPage&>(page).num_values(), rows));
  }

 private:
  const std::shared_ptr<const KeptChunk> chunk_;
  size_t next_ = 0;
};

// The pages of a chunk whose first pages were read before.
class RestReader final : public parquet::PageReader {
 public:
  // `page` comes after those of `chunk`; null: `error` does, or the end.
  RestReader(std::shared_ptr<const KeptChunk> chunk, std::shared_ptr<parquet::Page> page,
             std::exception_ptr error, std::unique_ptr<parquet::PageReader> pages)
      : first_(std::move(chunk)),
        page_(std::move(page)),
        error_(std::move(error)),
        pages_(std::move(pages)) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    if (data_page_filter_ != nullptr) {
      first_.set_data_page_filter(data_page_filter_);
      pages_->set_data_page_filter(std::exchange(data_page_filter_, nullptr));
    }
    if (auto page = first_.NextPage()) return page;
    if (error_ != nullptr) std::rethrow_exception(error_);
    if (page_ != nullptr) {
      auto page = std::exchange(page_, nullptr);
      if (!first_.PassedOver(*page)) return page;
    }
    return pages_->NextPage();
  }

  void set_max_page_header_size(uint32_t size) override {
    pages_->set_max_page_header_size(size);
  }

 private:
  KeptReader first_;
  std::shared_ptr<parquet::Page> page_;
  const std::exception_ptr error_;
  const std::unique_ptr<parquet::PageReader> pages_;
};

}  // namespace

KeptChunk::KeptChunk(std::shared_ptr<KeptMemory> kept, int64_t bytes, int64_t levels)
    : kept_(std::move(kept)), levels_(levels), levels_left_(levels), bytes_(bytes) {}

KeptChunk::~KeptChunk() {
  kept_->Discharge(charged_);
  kept_->Release(reserved_);
}

bool KeptChunk::Reserve() {
  if (!kept_->Reserve(bytes_)) return false;
  reserved_ = bytes_;
  return true;
}

std::shared_ptr<arrow::MutableBuffer> KeptChunk::Allocate(int64_t bytes) {
  const int64_t size = KeptMemory::SizeOf(bytes);
  if (size > reserved_) {
    if (!kept_->Reserve(size - reserved_)) return nullptr;
    reserved_ = size;
  }
  auto memory = kept_->Allocate(bytes);
  if (memory != nullptr) reserved_ -= size;
  return memory;
}

std::shared_ptr<arrow::Buffer> KeptChunk::MemoryOf(int64_t bytes) {
  if (used_ < kFirstBytes || bytes == 0) return Allocate(std::max<int64_t>(bytes, 1));
  if (rest_ == nullptr) {
    rest_ = Allocate(bytes_ - used_);
    if (rest_ == nullptr) return nullptr;
    rest_begin_ = used_;
  }
  return arrow::SliceMutableBuffer(rest_, used_ - rest_begin_, bytes);
}

bool KeptChunk::Add(const parquet::Page& page) try {
  const int64_t bytes = page.size();
  if (bytes > bytes_ - used_ || !kept_->Charge(kObjectBytes)) return false;
  charged_ += kObjectBytes;
  const std::shared_ptr<arrow::Buffer> memory = MemoryOf(bytes);
  if (memory == nullptr) return false;
  if (bytes > 0) {
    std::memcpy(memory->mutable_data(), page.data(), static_cast<size_t>(bytes));
  }
  auto copy = WithBytes(page, std::make_shared<KeptPage>(memory, bytes));
  if (copy == nullptr) return false;
  pages_.push_back(std::move(copy));
  used_ += RoundUp(bytes, kPageAlignment);
  if (page.type() != parquet::PageType::DICTIONARY_PAGE) {
    levels_left_ -= static_cast<const parquet::DataPage&>(page).num_values();
  }
  if (complete()) kept_->Release(std::exchange(reserved_, 0));
  return true;
} catch (const std::bad_alloc&) {
  return false;  // a pass can do without kept pages
}

// Pages that are copied on their way to their reader.
class KeptPages::Recorder final : public parquet::PageReader,
                                  public FreesPages,
                                  public LateRecording {
 public:
  // `open` is null if the recording begins at once.
  Recorder(KeptPages* kept, const Key& key, std::shared_ptr<KeptChunk> chunk,
           std::unique_ptr<parquet::PageReader> pages, OpenPages open = nullptr)
      : kept_(kept),
        key_(key),
        chunk_(std::move(chunk)),
        pages_(std::move(pages)),
        frees_(dynamic_cast<FreesPages*>(pages_.get())),
        open_(std::move(open)) {}
  ~Recorder() override { GiveUp(); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  std::shared_ptr<parquet::Page> NextPage() override {
    if (data_page_filter_ != nullptr) {
      // The base class stores the filter, but only `pages_` can apply the filter.
      pages_->set_data_page_filter(
          [this, passes_over = std::exchange(data_page_filter_, nullptr)](
              const parquet::DataPageStats& stats) {
            const bool passed_over = passes_over(stats);
            if (passed_over) GiveUp();
            return passed_over;
          });
    }
    auto page = pages_->NextPage();
    recorded_ = false;
    if (page == nullptr) return page;
    if (open_ != nullptr) {
      ++unrecorded_;
      return page;
    }
    // Elements of lists can wait in the copy, which outlives `page`.
    auto copy = Add(*page);
    recorded_ = copy != nullptr;
    return recorded_ ? copy : page;
  }

  void Begin() noexcept override {
    const OpenPages open = std::exchange(open_, nullptr);
    if (open == nullptr || chunk_ == nullptr) return;
    try {
      auto pages = open();
      for (; pages.ok() && unrecorded_ > 0; --unrecorded_) {
        const auto page = (*pages)->NextPage();
        if (page == nullptr || Add(*page) == nullptr) break;
      }
      if (unrecorded_ > 0) GiveUp();
    } catch (...) {
      GiveUp();  // the reader of the pages will come to whatever is wrong with the file
    }
  }

  bool CanFreePage() const override { return frees_ != nullptr && !recorded_; }
  void FreePage() override {
    if (frees_ != nullptr) frees_->FreePage();
  }

  void set_max_page_header_size(uint32_t size) override {
    pages_->set_max_page_header_size(size);
  }

 private:
  // Records a page. Returns the copy, or null if the recording has ended, or ends here.
  std::shared_ptr<parquet::Page> Add(const parquet::Page& page) {
    if (chunk_ == nullptr) return nullptr;
    if (!chunk_->Add(page)) {
      chunk_.reset();
      kept_->chunks_.Refuse(key_);
      return nullptr;
    }
    auto copy = chunk_->pages().back();
    if (chunk_->complete()) kept_->Enter(key_, std::move(chunk_));
    return copy;
  }

  // Ends the recording, unless the recording has ended.
  void GiveUp() noexcept {
    if (chunk_ == nullptr) return;
    chunk_.reset();
    kept_->chunks_.GiveUp(key_);
  }

  KeptPages* const kept_;
  const Key key_;
  std::shared_ptr<KeptChunk> chunk_;  // null: the recording has ended
  const std::unique_ptr<parquet::PageReader> pages_;
  FreesPages* const frees_;  // pages_; null: that frees no pages
  OpenPages open_;           // null: the recording has begun
  int64_t unrecorded_ = 0;   // pages that were returned before the recording began
  bool recorded_ = false;    // the page that was returned last
};

KeptPages::KeptPages(int64_t limit_bytes)
    : memory_(std::make_shared<KeptMemory>(limit_bytes)) {}

std::unique_ptr<parquet::PageReader> KeptPages::Read(
    std::shared_ptr<const KeptChunk> chunk) {
  served_ += 1;
  return std::make_unique<KeptReader>(std::move(chunk));
}

std::shared_ptr<KeptChunk> KeptPages::Begin(const Key& key, int64_t levels,
                                            int64_t bytes) {
  if (levels <= 0 || bytes <= 0 || bytes > memory_->limit_bytes()) return nullptr;
  if (!chunks_.Begin(key)) return nullptr;
  std::shared_ptr<KeptChunk> chunk;
  try {
    chunk = std::make_shared<KeptChunk>(memory_, bytes, levels);
  } catch (const std::bad_alloc&) {
    chunk = nullptr;  // a pass can do without kept pages
  }
  if (chunk != nullptr && chunk->Reserve()) return chunk;
  chunks_.GiveUp(key);
  return nullptr;
}

std::unique_ptr<parquet::PageReader> KeptPages::Record(
    const Key& key, int64_t levels, int64_t bytes,
    std::unique_ptr<parquet::PageReader> pages) {
  std::shared_ptr<KeptChunk> chunk = Begin(key, levels, bytes);
  if (chunk == nullptr) return pages;
  return std::make_unique<Recorder>(this, key, std::move(chunk), std::move(pages));
}

std::pair<std::unique_ptr<parquet::PageReader>, LateRecording*> KeptPages::RecordLater(
    const Key& key, int64_t levels, int64_t bytes,
    std::unique_ptr<parquet::PageReader> pages, OpenPages open) {
  std::shared_ptr<KeptChunk> chunk = Begin(key, levels, bytes);
  if (chunk == nullptr) return {std::move(pages), nullptr};
  auto recorder = std::make_unique<Recorder>(this, key, std::move(chunk),
                                             std::move(pages), std::move(open));
  LateRecording* const recording = recorder.get();
  return {std::move(recorder), recording};
}

std::unique_ptr<parquet::PageReader> KeptPages::RecordWhole(
    const Key& key, int64_t levels, int64_t bytes,
    std::unique_ptr<parquet::PageReader> pages) {
  const std::shared_ptr<KeptChunk> chunk = Begin(key, levels, bytes);
  if (chunk == nullptr) return pages;
  std::shared_ptr<parquet::Page> page;
  std::exception_ptr error;
  try {
    while (!chunk->complete() && (page = pages->NextPage()) != nullptr &&
           chunk->Add(*page)) {
      page = nullptr;
    }
  } catch (...) {
    error = std::current_exception();
  }
  if (chunk->complete()) {
    Enter(key, chunk);
    return std::make_unique<KeptReader>(chunk);
  }
  if (error != nullptr) {
    chunks_.GiveUp(key);
  } else {
    chunks_.Refuse(key);
  }
  return std::make_unique<RestReader>(chunk, std::move(page), std::move(error),
                                      std::move(pages));
}

void KeptPages::Enter(const Key& key, std::shared_ptr<const KeptChunk> chunk) {
  chunks_.Enter(key, std::move(chunk));
  chunks_.Shrink(*memory_);
}

void KeptPages::SetLimit(int64_t limit_bytes) {
  const bool rises = limit_bytes > memory_->limit_bytes();
  memory_->SetLimit(limit_bytes);
  if (rises) chunks_.ForgetRefusals();
  chunks_.Shrink(*memory_);
}

KeptPages::Stats KeptPages::stats() const {
  return {
      .bytes = memory_->held_bytes(), .limit = memory_->limit_bytes(), .served = served_};
}

}  // namespace fastload
