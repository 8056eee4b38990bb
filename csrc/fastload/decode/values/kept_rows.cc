#include "fastload/decode/values/kept_rows.h"

#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "fastload/base/copy_items.h"

namespace fastload {
namespace {

// Returns the error of a reader that is asked for more rows than the chunk has.
Status NoMoreRows(int64_t rows, int64_t left) {
  return MakeError(
      ErrorKind::kCorruptFile,
      "Expected " + std::to_string(rows) + " more rows, got " + std::to_string(left));
}

class KeptRowsReader final : public FixedReader {
 public:
  explicit KeptRowsReader(std::shared_ptr<const KeptRows> rows)
      : rows_(std::move(rows)) {}

  Status Skip(int64_t rows) override {
    if (rows > rows_->rows() - next_) return NoMoreRows(rows, rows_->rows() - next_);
    next_ += rows;
    return Status::OK();
  }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    if ((valid == nullptr) != (rows_->valid() == nullptr)) {
      return Status::Invalid("Expected kept rows to be read as they were recorded");
    }
    const int64_t first = next_;
    ARROW_RETURN_NOT_OK(Skip(rows));
    const int64_t item = rows_->item_bytes();
    CopyItems(rows_->values() + first * item, item, rows, out, stride);
    if (valid != nullptr) {
      std::memcpy(valid, rows_->valid() + first, static_cast<size_t>(rows));
    }
    return Status::OK();
  }

  int64_t page() const override { return -1; }

 private:
  const std::shared_ptr<const KeptRows> rows_;
  int64_t next_ = 0;
};

}  // namespace

// Rows that are copied on their way to the window.
class KeptSelections::Recorder final : public FixedReader {
 public:
  Recorder(KeptSelections* kept, const Key& key, std::shared_ptr<const KeptRows> rows,
           std::unique_ptr<FixedReader> reader)
      : kept_(kept), key_(key), rows_(std::move(rows)), reader_(std::move(reader)) {}
  ~Recorder() override { GiveUp(); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Status Skip(int64_t rows) override {
    GiveUp();
    return reader_->Skip(rows);
  }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    ARROW_RETURN_NOT_OK(reader_->Read(rows, out, stride, valid));
    if (rows_ == nullptr) return Status::OK();
    if ((valid == nullptr) != (rows_->valid() == nullptr)) {
      GiveUp();
      return Status::OK();
    }
    const int64_t item = rows_->item_bytes();
    uint8_t* const to = rows_->values() + next_ * item;
    for (int64_t row = 0; stride != item && row < rows; ++row) {
      std::memcpy(to + row * item, out + row * stride, static_cast<size_t>(item));
    }
    if (stride == item) std::memcpy(to, out, static_cast<size_t>(rows * item));
    if (valid != nullptr) {
      std::memcpy(rows_->valid() + next_, valid, static_cast<size_t>(rows));
    }
    next_ += rows;
    if (next_ == rows_->rows()) kept_->Enter(key_, std::move(rows_));
    return Status::OK();
  }

  // The window reads values, so that they can be copied, rather than codes.
  Result<std::span<const uint8_t>> Dictionary() override {
    if (rows_ != nullptr) return std::span<const uint8_t>();
    return reader_->Dictionary();
  }

  Result<int64_t> ReadCodes(int64_t rows, const Codes& codes, uint8_t* out,
                            uint8_t* valid) override {
    return rows_ != nullptr ? 0 : reader_->ReadCodes(rows, codes, out, valid);
  }

  void Rest() override { reader_->Rest(); }
  int64_t page() const override { return reader_->page(); }

 private:
  void GiveUp() noexcept {
    if (rows_ == nullptr) return;
    rows_.reset();
    kept_->GiveUp(key_);
  }

  KeptSelections* const kept_;
  const Key key_;
  std::shared_ptr<const KeptRows> rows_;  // null: the recording has ended
  int64_t next_ = 0;                      // rows that are recorded
  const std::unique_ptr<FixedReader> reader_;
};

std::shared_ptr<const KeptRows> KeptSelections::Find(const Key& key) const {
  std::lock_guard lock(mutex_);
  const auto found = chunks_.find(key);
  return found == chunks_.end() ? nullptr : found->second;
}

std::unique_ptr<FixedReader> KeptSelections::Read(std::shared_ptr<const KeptRows> rows) {
  served_ += 1;
  return std::make_unique<KeptRowsReader>(std::move(rows));
}

std::unique_ptr<FixedReader> KeptSelections::Record(const Key& key, int64_t rows,
                                                    int64_t item_bytes,
                                                    std::unique_ptr<FixedReader> reader) {
  if (rows <= 0 || rows * item_bytes > memory_->limit_bytes()) return reader;
  {
    std::lock_guard lock(mutex_);
    if (!chunks_.emplace(key, nullptr).second) return reader;
  }
  std::shared_ptr<const KeptRows> kept;
  try {
    auto values = MemoryOf(rows * item_bytes);
    auto valid = key.valid && values != nullptr ? MemoryOf(rows) : nullptr;
    if (values != nullptr && (valid != nullptr || !key.valid)) {
      kept = std::make_shared<KeptRows>(std::move(values), std::move(valid), rows,
                                        item_bytes);
      return std::make_unique<Recorder>(this, key, std::move(kept), std::move(reader));
    }
  } catch (const std::bad_alloc&) {
    kept = nullptr;  // a pass can do without kept rows
  }
  GiveUp(key);
  return reader;
}

std::shared_ptr<arrow::MutableBuffer> KeptSelections::MemoryOf(int64_t bytes) {
  const int64_t size = KeptMemory::SizeOf(bytes);
  if (!memory_->Reserve(size)) return nullptr;
  auto memory = memory_->Allocate(bytes);
  if (memory == nullptr) memory_->Release(size);
  return memory;
}

void KeptSelections::Shrink() {
  while (memory_->held_bytes() > memory_->limit_bytes()) {
    std::shared_ptr<const KeptRows> last;  // dies without the lock
    std::lock_guard lock(mutex_);
    if (order_.empty()) return;
    const auto found = chunks_.find(order_.back());
    last = std::move(found->second);
    chunks_.erase(found);
    order_.pop_back();
  }
}

void KeptSelections::Enter(const Key& key, std::shared_ptr<const KeptRows> rows) {
  std::lock_guard lock(mutex_);
  order_.push_back(key);
  chunks_[key] = std::move(rows);
}

void KeptSelections::GiveUp(const Key& key) noexcept {
  std::lock_guard lock(mutex_);
  chunks_.erase(key);
}

}  // namespace fastload
