#include "fastload/decode/lists/kept_lists.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fastload {
namespace {

const int64_t* OffsetsOf(const KeptRows::Piece& piece, size_t level) {
  return reinterpret_cast<const int64_t*>(piece.offsets[level]->data());
}

// A reader of kept rows, front to back.
class KeptListsReader final : public NestedReader {
 public:
  KeptListsReader(size_t depth, std::shared_ptr<const KeptRows> rows)
      : depth_(depth), rows_(std::move(rows)) {}

  Status Skip(int64_t rows) override {
    ARROW_RETURN_NOT_OK(Expect(rows));
    next_ += rows;
    return Status::OK();
  }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    ARROW_RETURN_NOT_OK(Expect(rows));
    if (valid && rows_->valid() == nullptr) {
      return Status::Invalid("Expected kept rows to be read as they were recorded");
    }
    out->Begin(depth_);
    if (valid) {
      const uint8_t* const from = rows_->valid() + next_;
      out->valid.insert(out->valid.end(), from, from + rows);
    }
    const auto& pieces = rows_->pieces();
    auto piece = std::ranges::upper_bound(pieces, next_, {}, &KeptRows::Piece::end);
    for (const int64_t end = next_ + rows; next_ < end; ++piece) {
      const int64_t first = piece == pieces.begin() ? 0 : std::prev(piece)->end;
      const int64_t stop = std::min(end, piece->end);
      ARROW_RETURN_NOT_OK(Append(*piece, next_ - first, stop - first, out));
      next_ = stop;
    }
    return Status::OK();
  }

  int64_t page() const override { return -1; }

 private:
  Status Expect(int64_t rows) const {
    const int64_t left = rows_->rows() - next_;
    if (rows <= left) return Status::OK();
    return MakeError(
        ErrorKind::kCorruptFile,
        "Expected " + std::to_string(rows) + " more rows, got " + std::to_string(left));
  }

  // Appends the rows [begin, end) of a piece.
  Status Append(const KeptRows::Piece& piece, int64_t begin, int64_t end,
                NestedRows* out) const {
    out->AppendLists([&](size_t level) { return OffsetsOf(piece, level); }, &begin, &end);
    if (piece.views != nullptr) {
      const auto* const views = reinterpret_cast<const ByteView*>(piece.views->data());
      out->views.insert(out->views.end(), views + begin, views + end);
      out->bytes.Keep(piece.bytes);
      return Status::OK();
    }
    const int64_t item = rows_->item_bytes();
    if (begin == end) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(uint8_t* const to, out->values.Extend((end - begin) * item));
    std::memcpy(to, piece.bytes->data() + begin * item,
                static_cast<size_t>((end - begin) * item));
    return Status::OK();
  }

  const size_t depth_;
  const std::shared_ptr<const KeptRows> rows_;
  int64_t next_ = 0;
};

// A reader whose rows are recorded while they are read.
class ListsRecorder final : public NestedReader {
 public:
  ListsRecorder(std::unique_ptr<KeptSelections::Recording> recording, int64_t most_bytes,
                const ColumnSpec& spec, std::unique_ptr<NestedReader> reader)
      : recording_(std::move(recording)),
        most_bytes_(most_bytes),
        depth_(static_cast<size_t>(spec.depth)),
        bytes_(spec.bytes),
        reader_(std::move(reader)) {}

  Status Skip(int64_t rows) override {
    recording_->GiveUp();
    return reader_->Skip(rows);
  }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    Before before{.elements = out->values.size(),
                  .views = out->views.size(),
                  .valid = out->valid.size()};
    before.lists.assign(depth_, 0);
    for (size_t level = 0; level < out->offsets.size(); ++level) {
      before.lists[level] = out->offsets[level].size() - 1;
    }
    ARROW_RETURN_NOT_OK(reader_->Read(rows, out, valid));
    if (recording_->on() && rows > 0) {
      Record(rows, *out, before, valid ? out->valid.data() + before.valid : nullptr);
      recording_->EnterIfComplete();
    }
    return Status::OK();
  }

  int64_t page() const override { return reader_->page(); }

 private:
  // What rows had before more rows were read.
  struct Before {
    std::vector<size_t> lists;  // by level
    int64_t elements;           // bytes
    size_t views;
    size_t valid;
  };

  void Record(int64_t rows, const NestedRows& read, const Before& before,
              const uint8_t* valid) {
    KeptRows::Piece piece{};
    for (size_t level = 0; level < depth_; ++level) {
      const auto offsets = std::span(read.offsets[level]).subspan(before.lists[level]);
      auto memory = Memory(offsets.size_bytes());
      if (memory == nullptr) return;
      auto* const to = reinterpret_cast<int64_t*>(memory->mutable_data());
      std::ranges::transform(offsets, to,
                             [&](int64_t offset) { return offset - offsets.front(); });
      piece.offsets.push_back(std::move(memory));
    }
    if (bytes_) {
      const auto views = std::span(read.views).subspan(before.views);
      int64_t bytes = 0;
      for (const ByteView& view : views) bytes += view.size;
      auto memory = Memory(views.size_bytes());
      auto viewed = memory == nullptr ? nullptr : Memory(static_cast<size_t>(bytes));
      if (viewed == nullptr) return;
      auto* const copies = reinterpret_cast<ByteView*>(memory->mutable_data());
      std::ranges::copy(views, copies);
      CopyViewed(std::span(copies, views.size()), viewed->mutable_data());
      piece.views = std::move(memory);
      piece.bytes = std::move(viewed);
    } else {
      const int64_t bytes = read.values.size() - before.elements;
      auto memory = Memory(static_cast<size_t>(bytes));
      if (memory == nullptr) return;
      read.values.Copy(before.elements, bytes, memory->mutable_data());
      // Codes that wait in their page are checked when they are copied.
      if (!read.values.damage().status.ok()) return recording_->GiveUp();
      piece.bytes = std::move(memory);
    }
    recording_->AddLists(rows, std::move(piece), valid);
  }

  // Returns memory of the recording, or ends the recording and returns null.
  std::shared_ptr<arrow::MutableBuffer> Memory(size_t size) {
    const auto bytes = static_cast<int64_t>(size);
    if (!recording_->Count(bytes, most_bytes_)) return nullptr;
    auto memory = recording_->MemoryOf(bytes);
    if (memory == nullptr) recording_->GiveUp();
    return memory;
  }

  const std::unique_ptr<KeptSelections::Recording> recording_;
  const int64_t most_bytes_;
  const size_t depth_;
  const bool bytes_;
  const std::unique_ptr<NestedReader> reader_;
};

}  // namespace

bool CanKeepLists(const ColumnSpec& spec) {
  return spec.list_size == 0 && spec.list_items < 0 && !spec.lengths_only;
}

std::unique_ptr<NestedReader> ReadKeptLists(KeptSelections* kept, const ColumnSpec& spec,
                                            std::shared_ptr<const KeptRows> rows) {
  kept->CountServed();
  return std::make_unique<KeptListsReader>(static_cast<size_t>(spec.depth),
                                           std::move(rows));
}

std::unique_ptr<NestedReader> RecordLists(KeptSelections* kept,
                                          const KeptSelections::Key& key, int64_t rows,
                                          int64_t most_bytes, const ColumnSpec& spec,
                                          std::unique_ptr<NestedReader> reader) {
  auto recording = kept->BeginLists(key, rows, spec.bytes ? 0 : ItemSize(spec.dtype));
  if (recording == nullptr) return reader;
  return std::make_unique<ListsRecorder>(std::move(recording), most_bytes, spec,
                                         std::move(reader));
}

}  // namespace fastload
