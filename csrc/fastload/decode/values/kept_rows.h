// Selected rows of column chunks, decoded, that stay in memory from one pass to the next.
#pragma once

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/kept_memory.h"
#include "fastload/decode/pages/kept_table.h"
#include "fastload/decode/values/value_reader.h"

namespace fastload {

// The selected rows of one column chunk, as a reader writes them.
class KeptRows {
 public:
  // `values`: the memory of the rows' values, or views of bytes; null for rows of lists.
  // `valid`: the memory of a byte per row, 1 = not null; null: readers need no such
  // bytes. `item_bytes`: bytes of a row, or of an element of lists.
  KeptRows(std::shared_ptr<arrow::MutableBuffer> values,
           std::shared_ptr<arrow::MutableBuffer> valid, int64_t rows, int64_t item_bytes)
      : values_(std::move(values)),
        valid_(std::move(valid)),
        rows_(rows),
        item_bytes_(item_bytes) {}

  // What the rows in front of `end`, behind those of the piece before, have outside of
  // the values: the bytes that views refer to, or all of lists.
  struct Piece {
    std::shared_ptr<arrow::Buffer> bytes;  // elements without gaps, or bytes
    int64_t end;
    // For each level of lists: the int64 index at which each list begins among the
    // children that the piece has, then the end of the last list.
    std::vector<std::shared_ptr<arrow::Buffer>> offsets;
    std::shared_ptr<arrow::Buffer> views;  // of the elements of lists of bytes
  };

  int64_t rows() const { return rows_; }
  int64_t item_bytes() const { return item_bytes_; }
  // The values, or the views of bytes, without gaps; not for rows of lists.
  uint8_t* values() const { return values_->mutable_data(); }
  uint8_t* valid() const { return valid_ == nullptr ? nullptr : valid_->mutable_data(); }
  const std::vector<Piece>& pieces() const { return pieces_; }
  void Add(Piece piece) { pieces_.push_back(std::move(piece)); }

 private:
  const std::shared_ptr<arrow::MutableBuffer> values_;
  const std::shared_ptr<arrow::MutableBuffer> valid_;
  const int64_t rows_;
  const int64_t item_bytes_;
  std::vector<Piece> pieces_;
};

// Copies the bytes that views refer to, one after another, to `to`, and makes the views
// refer to the copies.
void CopyViewed(std::span<ByteView> views, uint8_t* to);

// The column chunks of a dataset whose selected rows are kept. Thread-safe.
class KeptSelections {
 public:
  struct Key {
    int32_t file;
    int32_t row_group;
    int32_t column;  // index of the ColumnSpec: columns decode a leaf in different ways
    bool valid;      // readers ask for the validity of rows
    auto operator<=>(const Key&) const = default;
  };

  explicit KeptSelections(std::shared_ptr<KeptMemory> memory)
      : memory_(std::move(memory)) {}

  // Returns the rows, or null if they are not kept.
  std::shared_ptr<const KeptRows> Find(const Key& key) const { return chunks_.Find(key); }

  // Returns true if the rows are kept for some reader of the column.
  bool Has(int32_t file, int32_t row_group, int32_t column) const {
    const auto has = [&](bool valid) {
      return Find({.file = file,
                   .row_group = row_group,
                   .column = column,
                   .valid = valid}) != nullptr;
    };
    return has(false) || has(true);
  }

  // A recording of the rows of a chunk while they are read.
  class Recording {
   public:
    // `rows`: the memory to fill; null: the recording has ended.
    Recording(KeptSelections* kept, const Key& key, std::shared_ptr<KeptRows> rows)
        : kept_(kept), key_(key), rows_(std::move(rows)) {}
    ~Recording() { GiveUp(); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    bool on() const { return rows_ != nullptr; }
    // Ends the recording, unless it has ended. A later pass may record the rows.
    void GiveUp() noexcept;
    // Ends the recording for good.
    void Refuse();

    // These record rows, unless the recording has ended. They end it without room, or if
    // validity is asked for in another way than before.
    void Add(int64_t rows, const uint8_t* values, int64_t stride, const uint8_t* valid);
    // Records views, and what they refer to.
    void AddBytes(int64_t rows, const ByteView* views, const uint8_t* valid,
                  int64_t most_bytes);
    // Records rows of lists, whose memory comes from MemoryOf. `piece.end` is not used.
    void AddLists(int64_t rows, KeptRows::Piece piece, const uint8_t* valid);
    // Returns memory within the limit, or null.
    std::shared_ptr<arrow::MutableBuffer> MemoryOf(int64_t bytes) {
      return kept_->MemoryOf(std::max<int64_t>(bytes, 1));
    }
    // Counts bytes besides those of rows. Refuses the rows, and returns false, if they
    // exceed `most_bytes` together.
    bool Count(int64_t bytes, int64_t most_bytes);

    // Keeps the rows if all of them are recorded.
    void EnterIfComplete();

   private:
    // Records validity, and returns true if the recording goes on.
    bool AddValid(int64_t rows, const uint8_t* valid);

    KeptSelections* const kept_;
    const Key key_;
    std::shared_ptr<KeptRows> rows_;
    int64_t next_ = 0;   // rows that are recorded
    int64_t bytes_ = 0;  // as Count has it
  };

  // Return a reader of kept rows.
  std::unique_ptr<FixedReader> Read(std::shared_ptr<const KeptRows> rows);
  std::unique_ptr<BytesReader> ReadBytes(std::shared_ptr<const KeptRows> rows);

  // Return `reader`, whose rows are recorded while they are read. They are kept once all
  // `rows` rows have been read, none of them skipped. Return `reader` unchanged if the
  // rows have no room, or are being recorded. This object must outlive the reader.
  std::unique_ptr<FixedReader> Record(const Key& key, int64_t rows, int64_t item_bytes,
                                      std::unique_ptr<FixedReader> reader);
  // Rows whose bytes and views take more than `most_bytes` are not kept, now and later.
  std::unique_ptr<BytesReader> RecordBytes(const Key& key, int64_t rows,
                                           int64_t most_bytes,
                                           std::unique_ptr<BytesReader> reader);

  // Returns a recording of rows of lists, whose elements have `item_bytes` bytes, for
  // RecordLists; null if the rows have no room, or are being recorded.
  std::unique_ptr<Recording> BeginLists(const Key& key, int64_t rows, int64_t item_bytes);

  // Returns true if rows took more than the most bytes.
  bool Refuses(const Key& key) const { return chunks_.Refuses(key); }

  // Lets go of the chunks that came last until the memory is within its limit.
  void Shrink() { chunks_.Shrink(*memory_); }

  // Lets go of all chunks.
  void Clear() noexcept { chunks_.Clear(); }

  // Count, and return, how often kept rows were read.
  void CountServed() { served_ += 1; }
  int64_t served() const { return served_; }

 private:
  class Recorder;
  class BytesRecorder;

  // Returns memory of the limit; null without room.
  std::shared_ptr<arrow::MutableBuffer> MemoryOf(int64_t bytes);
  // Returns rows to record, whose values have `value_bytes` bytes; null if they have no
  // room, are kept, or are being recorded.
  std::shared_ptr<KeptRows> Begin(const Key& key, int64_t rows, int64_t item_bytes,
                                  int64_t value_bytes);

  const std::shared_ptr<KeptMemory> memory_;
  std::atomic<int64_t> served_ = 0;
  KeptTable<Key, KeptRows> chunks_;
};

}  // namespace fastload
