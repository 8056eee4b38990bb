// Selected rows of column chunks, decoded, that stay in memory from one pass to the next.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/kept_memory.h"
#include "fastload/decode/pages/kept_table.h"
#include "fastload/decode/values/value_reader.h"

namespace fastload {

// The selected rows of one column chunk, as a FixedReader or a BytesReader writes them.
class KeptRows {
 public:
  // `valid`: the memory of a byte per row, 1 = not null; null: readers need no such
  // bytes.
  KeptRows(std::shared_ptr<arrow::MutableBuffer> values,
           std::shared_ptr<arrow::MutableBuffer> valid, int64_t rows, int64_t item_bytes)
      : values_(std::move(values)),
        valid_(std::move(valid)),
        rows_(rows),
        item_bytes_(item_bytes) {}

  // The bytes of the rows in front of `end`, behind those of the piece before.
  struct Piece {
    std::shared_ptr<arrow::Buffer> bytes;
    int64_t end;
  };

  int64_t rows() const { return rows_; }
  int64_t item_bytes() const { return item_bytes_; }
  // The values, or the views of bytes, without gaps.
  uint8_t* values() const { return values_->mutable_data(); }
  uint8_t* valid() const { return valid_ == nullptr ? nullptr : valid_->mutable_data(); }
  // What the views refer to.
  const std::vector<Piece>& pieces() const { return pieces_; }
  void Add(Piece piece) { pieces_.push_back(std::move(piece)); }

 private:
  const std::shared_ptr<arrow::MutableBuffer> values_;
  const std::shared_ptr<arrow::MutableBuffer> valid_;
  const int64_t rows_;
  const int64_t item_bytes_;
  std::vector<Piece> pieces_;
};

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

  // Returns true if rows took more than the most bytes.
  bool Refuses(const Key& key) const { return chunks_.Refuses(key); }

  // Lets go of the chunks that came last until the memory is within its limit.
  void Shrink() { chunks_.Shrink(*memory_); }

  // Returns how often kept rows were read.
  int64_t served() const { return served_; }

 private:
  class Recording;
  class Recorder;
  class BytesRecorder;

  // Returns memory of the limit; null without room.
  std::shared_ptr<arrow::MutableBuffer> MemoryOf(int64_t bytes);
  // Returns rows to record; null if they have no room, are kept, or are being recorded.
  std::shared_ptr<KeptRows> Begin(const Key& key, int64_t rows, int64_t item_bytes);

  const std::shared_ptr<KeptMemory> memory_;
  std::atomic<int64_t> served_ = 0;
  KeptTable<Key, KeptRows> chunks_;
};

}  // namespace fastload
