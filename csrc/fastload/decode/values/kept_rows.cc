#include "fastload/decode/values/kept_rows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "fastload/base/copy_items.h"

namespace fastload {
namespace {

// Kept rows, front to back.
class Walk {
 public:
  explicit Walk(std::shared_ptr<const KeptRows> rows) : rows_(std::move(rows)) {}

  // Moves behind the next `rows` rows, and returns the first of them.
  Result<int64_t> Next(int64_t rows) {
    const int64_t left = rows_->rows() - next_;
    if (rows > left) {
      return MakeError(
          ErrorKind::kCorruptFile,
          "Expected " + std::to_string(rows) + " more rows, got " + std::to_string(left));
    }
    const int64_t first = next_;
    next_ += rows;
    return first;
  }

  // Does the same, and copies values and validity.
  Result<int64_t> Copy(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) {
    if ((valid == nullptr) != (rows_->valid() == nullptr)) {
      return Status::Invalid("Expected kept rows to be read as they were recorded");
    }
    ARROW_ASSIGN_OR_RAISE(const int64_t first, Next(rows));
    const int64_t item = rows_->item_bytes();
    CopyItems(rows_->values() + first * item, item, rows, out, stride);
    if (valid != nullptr) {
      std::memcpy(valid, rows_->valid() + first, static_cast<size_t>(rows));
    }
    return first;
  }

  const KeptRows& rows() const { return *rows_; }

 private:
  const std::shared_ptr<const KeptRows> rows_;
  int64_t next_ = 0;
};

class KeptRowsReader final : public FixedReader {
 public:
  explicit KeptRowsReader(std::shared_ptr<const KeptRows> rows)
      : walk_(std::move(rows)) {}

  Status Skip(int64_t rows) override { return walk_.Next(rows).status(); }
  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    return walk_.Copy(rows, out, stride, valid).status();
  }
  int64_t page() const override { return -1; }

 private:
  Walk walk_;
};

class KeptBytesReader final : public BytesReader {
 public:
  explicit KeptBytesReader(std::shared_ptr<const KeptRows> rows)
      : walk_(std::move(rows)) {}

  Status Skip(int64_t rows) override { return walk_.Next(rows).status(); }

  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena* arena) override {
    ARROW_ASSIGN_OR_RAISE(
        const int64_t first,
        walk_.Copy(rows, reinterpret_cast<uint8_t*>(views), sizeof(ByteView), valid));
    const auto& pieces = walk_.rows().pieces();
    auto piece = std::ranges::upper_bound(pieces, first, {}, &KeptRows::Piece::end);
    for (int64_t at = first; at < first + rows; at = piece->end, ++piece) {
      arena->Keep(piece->bytes);
    }
    return Status::OK();
  }

  int64_t page() const override { return -1; }

 private:
  Walk walk_;
};

}  // namespace

void CopyViewed(std::span<ByteView> views, uint8_t* to) {
  for (ByteView& view : views) {
    if (view.size == 0) continue;
    std::memcpy(to, view.data, static_cast<size_t>(view.size));
    view.data = to;
    to += view.size;
  }
}

void KeptSelections::Recording::GiveUp() noexcept {
  if (rows_ == nullptr) return;
  rows_.reset();
  kept_->chunks_.GiveUp(key_);
}

void KeptSelections::Recording::Refuse() {
  rows_.reset();
  kept_->chunks_.Refuse(key_);
}

bool KeptSelections::Recording::AddValid(int64_t rows, const uint8_t* valid) {
  if (rows_ == nullptr) return false;
  if ((valid == nullptr) != (rows_->valid() == nullptr)) {
    GiveUp();
    return false;
  }
  if (valid != nullptr) {
    std::memcpy(rows_->valid() + next_, valid, static_cast<size_t>(rows));
  }
  return true;
}

void KeptSelections::Recording::Add(int64_t rows, const uint8_t* values, int64_t stride,
                                    const uint8_t* valid) {
  if (!AddValid(rows, valid)) return;
  const int64_t item = rows_->item_bytes();
  uint8_t* const to = rows_->values() + next_ * item;
  if (stride == item) {
    std::memcpy(to, values, static_cast<size_t>(rows * item));
  } else {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(to + row * item, values + row * stride, static_cast<size_t>(item));
    }
  }
  next_ += rows;
}

void KeptSelections::Recording::AddBytes(int64_t rows, const ByteView* views,
                                         const uint8_t* valid, int64_t most_bytes) {
  if (rows_ == nullptr || rows == 0) return;
  const int64_t before = next_;
  Add(rows, reinterpret_cast<const uint8_t*>(views), sizeof(ByteView), valid);
  if (rows_ == nullptr) return;
  auto* const copies = reinterpret_cast<ByteView*>(rows_->values()) + before;
  int64_t bytes = 0;
  for (int64_t row = 0; row < rows; ++row) bytes += copies[row].size;
  if (!Count(bytes, most_bytes)) return;
  auto memory = MemoryOf(bytes);
  if (memory == nullptr) return GiveUp();
  CopyViewed(std::span(copies, static_cast<size_t>(rows)), memory->mutable_data());
  rows_->Add({.bytes = std::move(memory), .end = next_});
}

void KeptSelections::Recording::AddLists(int64_t rows, KeptRows::Piece piece,
                                         const uint8_t* valid) {
  if (!AddValid(rows, valid)) return;
  next_ += rows;
  piece.end = next_;
  rows_->Add(std::move(piece));
}

bool KeptSelections::Recording::Count(int64_t bytes, int64_t most_bytes) {
  bytes_ += bytes;
  if (bytes_ <= most_bytes) return true;
  Refuse();
  return false;
}

void KeptSelections::Recording::EnterIfComplete() {
  if (rows_ == nullptr || next_ != rows_->rows()) return;
  kept_->chunks_.Enter(key_, std::move(rows_));
  // The limit may have been lowered since the memory was taken.
  kept_->Shrink();
}

class KeptSelections::Recorder final : public FixedReader {
 public:
  Recorder(KeptSelections* kept, const Key& key, std::shared_ptr<KeptRows> rows,
           std::unique_ptr<FixedReader> reader)
      : recording_(kept, key, std::move(rows)), reader_(std::move(reader)) {}

  Status Skip(int64_t rows) override {
    recording_.GiveUp();
    return reader_->Skip(rows);
  }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    ARROW_RETURN_NOT_OK(reader_->Read(rows, out, stride, valid));
    recording_.Add(rows, out, stride, valid);
    recording_.EnterIfComplete();
    return Status::OK();
  }

  // The window reads values, so that they can be copied, rather than codes.
  Result<std::span<const uint8_t>> Dictionary() override {
    if (recording_.on()) return std::span<const uint8_t>();
    return reader_->Dictionary();
  }

  Result<int64_t> ReadCodes(int64_t rows, const Codes& codes, uint8_t* out,
                            uint8_t* valid) override {
    return recording_.on() ? 0 : reader_->ReadCodes(rows, codes, out, valid);
  }

  void Rest() override { reader_->Rest(); }
  int64_t page() const override { return reader_->page(); }

 private:
  Recording recording_;
  const std::unique_ptr<FixedReader> reader_;
};

class KeptSelections::BytesRecorder final : public BytesReader {
 public:
  BytesRecorder(KeptSelections* kept, const Key& key, std::shared_ptr<KeptRows> rows,
                int64_t most_bytes, std::unique_ptr<BytesReader> reader)
      : recording_(kept, key, std::move(rows)),
        most_bytes_(most_bytes),
        reader_(std::move(reader)) {}

  Status Skip(int64_t rows) override {
    recording_.GiveUp();
    return reader_->Skip(rows);
  }

  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena* arena) override {
    ARROW_RETURN_NOT_OK(reader_->Read(rows, views, valid, arena));
    recording_.AddBytes(rows, views, valid, most_bytes_);
    recording_.EnterIfComplete();
    return Status::OK();
  }

  int64_t page() const override { return reader_->page(); }

 private:
  Recording recording_;
  const int64_t most_bytes_;
  const std::unique_ptr<BytesReader> reader_;
};

std::unique_ptr<FixedReader> KeptSelections::Read(std::shared_ptr<const KeptRows> rows) {
  CountServed();
  return std::make_unique<KeptRowsReader>(std::move(rows));
}

std::unique_ptr<BytesReader> KeptSelections::ReadBytes(
    std::shared_ptr<const KeptRows> rows) {
  CountServed();
  return std::make_unique<KeptBytesReader>(std::move(rows));
}

std::unique_ptr<FixedReader> KeptSelections::Record(const Key& key, int64_t rows,
                                                    int64_t item_bytes,
                                                    std::unique_ptr<FixedReader> reader) {
  auto kept = Begin(key, rows, item_bytes, rows * item_bytes);
  if (kept == nullptr) return reader;
  return std::make_unique<Recorder>(this, key, std::move(kept), std::move(reader));
}

std::unique_ptr<BytesReader> KeptSelections::RecordBytes(
    const Key& key, int64_t rows, int64_t most_bytes,
    std::unique_ptr<BytesReader> reader) {
  constexpr auto kView = static_cast<int64_t>(sizeof(ByteView));
  auto kept = Begin(key, rows, kView, rows * kView);
  if (kept == nullptr) return reader;
  return std::make_unique<BytesRecorder>(this, key, std::move(kept),
                                         most_bytes - rows * kView, std::move(reader));
}

std::unique_ptr<KeptSelections::Recording> KeptSelections::BeginLists(
    const Key& key, int64_t rows, int64_t item_bytes) {
  auto kept = Begin(key, rows, item_bytes, 0);
  if (kept == nullptr) return nullptr;
  return std::make_unique<Recording>(this, key, std::move(kept));
}

std::shared_ptr<KeptRows> KeptSelections::Begin(const Key& key, int64_t rows,
                                                int64_t item_bytes, int64_t value_bytes) {
  if (rows <= 0 || value_bytes > memory_->limit_bytes()) return nullptr;
  if (!chunks_.Begin(key)) return nullptr;
  std::shared_ptr<KeptRows> kept;
  try {
    auto values = value_bytes > 0 ? MemoryOf(value_bytes) : nullptr;
    auto valid = key.valid ? MemoryOf(rows) : nullptr;
    if ((values != nullptr || value_bytes == 0) && (valid != nullptr || !key.valid)) {
      kept = std::make_shared<KeptRows>(std::move(values), std::move(valid), rows,
                                        item_bytes);
    }
  } catch (const std::bad_alloc&) {
    kept = nullptr;  // a pass can do without kept rows
  }
  if (kept == nullptr) chunks_.GiveUp(key);
  return kept;
}

std::shared_ptr<arrow::MutableBuffer> KeptSelections::MemoryOf(int64_t bytes) {
  const int64_t size = KeptMemory::SizeOf(bytes);
  if (!memory_->Reserve(size)) return nullptr;
  auto memory = memory_->Allocate(bytes);
  if (memory == nullptr) memory_->Release(size);
  return memory;
}

}  // namespace fastload
