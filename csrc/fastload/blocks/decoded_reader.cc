#include "fastload/blocks/decoded_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "fastload/base/copy_items.h"

namespace fastload {
namespace {

void SetValid(uint8_t* valid, int64_t rows) {
  if (valid != nullptr) std::memset(valid, 1, static_cast<size_t>(rows));
}

// A column's rows, front to back.
class Rows {
 public:
  Rows(std::shared_ptr<const DecodedBlock> block, std::vector<DecodedBlock::Run> runs)
      : block_(std::move(block)), runs_(std::move(runs)) {}

  Status Skip(int64_t rows) {
    return ForEach(rows, [](const auto&, int64_t, int64_t) { return Status::OK(); });
  }

  // Calls fn(run, first, rows) for the next rows, where `first` is the first row in the
  // run.
  template <typename Fn>
  Status ForEach(int64_t rows, const Fn& fn) {
    while (rows > 0) {
      while (run_ < runs_.size() && row_ == runs_[run_].rows) {
        ++run_;
        row_ = 0;
      }
      if (run_ == runs_.size()) {
        return MakeError(
            ErrorKind::kStorage,
            "Expected a block in the cache of all rows of its row group, got "
            "one with " +
                std::to_string(rows) + " rows less");
      }
      const int64_t n = std::min(rows, runs_[run_].rows - row_);
      ARROW_RETURN_NOT_OK(fn(runs_[run_], row_, n));
      row_ += n;
      rows -= n;
    }
    return Status::OK();
  }

 private:
  // Not const: arrow::Result ends the process if a move has to copy, and the copy throws.
  std::shared_ptr<const DecodedBlock> block_;
  std::vector<DecodedBlock::Run> runs_;
  size_t run_ = 0;
  int64_t row_ = 0;  // next row of the run
};

class DecodedFixedReader final : public FixedReader {
 public:
  DecodedFixedReader(Rows rows, const ColumnSpec& spec)
      : rows_(std::move(rows)), item_(ItemBytes(spec)) {}

  Status Skip(int64_t rows) override { return rows_.Skip(rows); }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    SetValid(valid, rows);
    return rows_.ForEach(rows,
                         [&](const DecodedBlock::Run& run, int64_t first, int64_t n) {
                           CopyItems(run.values + first * item_, item_, n, out, stride);
                           out += n * stride;
                           return Status::OK();
                         });
  }

  int64_t page() const override { return -1; }

 private:
  Rows rows_;
  const int64_t item_;
};

// Appends the views of `count` values from `first` on.
void AddViews(const int64_t* offsets, const uint8_t* bytes, int64_t first, int64_t count,
              ByteView* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = offsets[first + i];
    out[i] = {bytes + start, offsets[first + i + 1] - start};
  }
}

class DecodedBytesReader final : public BytesReader {
 public:
  explicit DecodedBytesReader(Rows rows) : rows_(std::move(rows)) {}

  Status Skip(int64_t rows) override { return rows_.Skip(rows); }

  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena*) override {
    SetValid(valid, rows);
    return rows_.ForEach(rows,
                         [&](const DecodedBlock::Run& run, int64_t first, int64_t n) {
                           AddViews(run.offsets[0], run.values, first, n, views);
                           views += n;
                           return Status::OK();
                         });
  }

  int64_t page() const override { return -1; }

 private:
  Rows rows_;
};

class DecodedNestedReader final : public NestedReader {
 public:
  DecodedNestedReader(Rows rows, const ColumnSpec& spec)
      : rows_(std::move(rows)),
        depth_(static_cast<size_t>(spec.depth)),
        bytes_(spec.bytes),
        item_(ItemBytes(spec)) {}

  Status Skip(int64_t rows) override { return rows_.Skip(rows); }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    out->Begin(depth_);
    if (valid) out->valid.resize(out->valid.size() + static_cast<size_t>(rows), 1);
    return rows_.ForEach(rows, [&](const DecodedBlock::Run& run, int64_t first,
                                   int64_t n) {
      int64_t end = first + n;
      out->AppendLists([&](size_t level) { return run.offsets[level]; }, &first, &end);
      n = end - first;
      if (!bytes_) {
        out->values.Borrow(run.values + first * item_, n * item_);
        return Status::OK();
      }
      const size_t size = out->views.size();
      out->views.resize(size + static_cast<size_t>(n));
      AddViews(run.offsets[depth_], run.values, first, n, out->views.data() + size);
      return Status::OK();
    });
  }

  int64_t page() const override { return -1; }

 private:
  Rows rows_;
  const size_t depth_;
  const bool bytes_;
  const int64_t item_;
};

Result<Rows> RowsOf(std::shared_ptr<const DecodedBlock> block, const ColumnSpec& spec) {
  ARROW_ASSIGN_OR_RAISE(auto runs, block->Column(spec));
  return Rows(std::move(block), std::move(runs));
}

}  // namespace

Result<std::unique_ptr<FixedReader>> MakeDecodedFixedReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec) {
  ARROW_ASSIGN_OR_RAISE(Rows rows, RowsOf(std::move(block), *spec));
  return std::make_unique<DecodedFixedReader>(std::move(rows), *spec);
}

Result<std::unique_ptr<BytesReader>> MakeDecodedBytesReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec) {
  ARROW_ASSIGN_OR_RAISE(Rows rows, RowsOf(std::move(block), *spec));
  return std::make_unique<DecodedBytesReader>(std::move(rows));
}

Result<std::unique_ptr<NestedReader>> MakeDecodedNestedReader(
    std::shared_ptr<const DecodedBlock> block, const ColumnSpec* spec) {
  ARROW_ASSIGN_OR_RAISE(Rows rows, RowsOf(std::move(block), *spec));
  return std::make_unique<DecodedNestedReader>(std::move(rows), *spec);
}

}  // namespace fastload
