#include "fastload/decode/selected_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fastload/base/copy_marked.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/pages/page_cursor.h"

namespace fastload {

ColumnSpec FilledSpec(const ColumnSpec& spec) {
  ColumnSpec filled = spec;
  filled.leaves.clear();
  filled.constants.clear();
  filled.multipliers.clear();
  const int width = spec.bytes ? 0 : ItemSize(spec.dtype);
  filled.fill = std::string(static_cast<size_t>(width), '\0');
  return filled;
}

bool NeverFails(const ColumnSpec& spec, const ChunkInput& input) {
  if (spec.bytes) return true;
  return spec.list_size == 0 && !spec.cast && !spec.exact && spec.multipliers.empty() &&
         !input.descr->logical_type()->is_decimal() &&
         input.descr->physical_type() != parquet::Type::INT96;
}

namespace {

using Span = SelectedRows::Span;

// Memory to which a span with gaps is decoded before its selected rows are copied.
struct Block {
  std::vector<uint64_t> values;
  std::vector<ByteView> views;
  std::vector<uint8_t> valid;
  std::array<uint64_t, SelectedRows::kMarkWords> marks;

  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(values.data()); }
};

// The common part of the readers: the position among the rows, and the base reader below.
template <typename Reader>
class Selected : public Reader {
 public:
  // With `blocks`, rows that are not selected are decoded where decoding is quicker than
  // skipping.
  Selected(RowBits bits, bool blocks, ChunkPages pages = {})
      : rows_(bits), blocks_(blocks), pages_(std::move(pages)) {}

  // A factory of a reader of whole column chunks.
  using MakeBase = Result<std::unique_ptr<Reader>>(ChunkInput input,
                                                   const ColumnSpec* spec);

  // Makes the base, which reads `spec` except that nulls in rows that are not selected
  // are no error.
  Status Open(ChunkInput input, const ColumnSpec* spec, MakeBase* make) {
    refuses_nulls_ =
        blocks_ && !spec->fill.has_value() && input.descr->max_definition_level() > 0;
    if (refuses_nulls_) {
      filled_ = std::make_unique<ColumnSpec>(FilledSpec(*spec));
      spec = filled_.get();
    }
    for (const OmittedPages& omitted : pages_.omitted) input.rows -= omitted.rows;
    // The footer's count includes values of omitted pages.
    if (!pages_.omitted.empty()) input.levels = INT64_MAX;
    input.page_rows = std::move(pages_.page_rows);
    ARROW_ASSIGN_OR_RAISE(base_, make(std::move(input), spec));
    return Status::OK();
  }

  Status Skip(int64_t rows) override {
    rows_.Skip(rows);
    return Status::OK();
  }

  int64_t page() const override {
    return Stored(base_->page(), &OmittedPages::page, &OmittedPages::pages);
  }

 protected:
  // Calls fn(base), which returns a Status or a Result. Changes the row in its error to
  // the stored row.
  template <typename Fn>
  auto Call(const Fn& fn) -> decltype(fn(std::declval<Reader&>())) {
    auto result = fn(*base_);
    if (result.ok()) return result;
    const Status status = StatusOf(result);
    const auto row = RowOf(status);
    return row ? AtRow(status, Stored(*row, &OmittedPages::row, &OmittedPages::rows))
               : status;
  }

  // Moves the base to the next selected row.
  Status Align() { return SkipTo(rows_.row()); }

  // Returns the next span, with at most `most` selected rows, and moves the base to the
  // span's first row.
  Result<Span> Next(int64_t most) {
    Span span = rows_.Next(most, blocks_);
    if (span.rows == 0) {
      return Status::Invalid("Expected ", most, " more selected rows, got none");
    }
    ARROW_RETURN_NOT_OK(SkipTo(span.start));
    // A span with gaps ends before omitted pages; a run never contains omitted pages.
    if (next_omitted_ < pages_.omitted.size()) {
      const int64_t row = pages_.omitted[next_omitted_].row;
      if (row < span.start + span.rows) {
        span = rows_.Before(span, row);
        rows_.Return(row);
      }
    }
    base_row_ = span.start + span.rows;
    return span;
  }

  // Returns the bytes for the validity of a span: the caller's, or scratch bytes that are
  // only checked.
  uint8_t* ValidOf(const Span& span, uint8_t* valid) {
    if (span.whole() && (valid != nullptr || !refuses_nulls_)) return valid;
    if (valid == nullptr && !refuses_nulls_) return nullptr;
    // CopyMarked reads whole words of marks.
    const int64_t room = std::max(span.rows, SelectedRows::kBlockRows);
    block_.valid.resize(std::max(block_.valid.size(), static_cast<size_t>(room)));
    return block_.valid.data();
  }

  // Marks the selected rows of a span with gaps.
  const uint64_t* Marks(const Span& span) {
    rows_.Marks(span, block_.marks.data());
    return block_.marks.data();
  }

  // Returns an error if a selected row is null; `valid` has the span's rows. `marks` is
  // null if the span has no gaps.
  Status CheckNulls(const Span& span, const uint8_t* valid, const uint64_t* marks) {
    if (!refuses_nulls_) return Status::OK();
    const void* null = std::memchr(valid, 0, static_cast<size_t>(span.rows));
    if (null == nullptr) return Status::OK();
    for (int64_t row = static_cast<const uint8_t*>(null) - valid; row < span.rows;
         ++row) {
      const bool marked = marks == nullptr || (marks[row / 64] >> row % 64 & 1) != 0;
      if (valid[row] == 0 && marked) return UnexpectedNull(span.start + row);
    }
    return Status::OK();
  }

  // Copies the validity of the marked rows of a span.
  static void CopyValid(const Span& span, const uint8_t* from, const uint64_t* marks,
                        uint8_t* valid) {
    if (valid != nullptr) CopyMarked(from, 1, marks, span.selected, valid, 1);
  }

  // Returns the first `rows` rows of a span, of which the base has read no more. `marks`
  // is null if the span has no gaps.
  Span Front(Span span, int64_t rows, const uint64_t* marks) {
    if (rows == span.rows) return span;
    base_row_ = span.start + rows;
    rows_.Return(base_row_);
    span.rows = rows;
    span.selected = marks == nullptr ? rows : CountMarks(marks, rows);
    return span;
  }

  Block& block() { return block_; }

 private:
  static Status StatusOf(const Status& status) { return status; }
  template <typename T>
  static Status StatusOf(const Result<T>& result) {
    return result.status();
  }

  // Converts a row or page number of the base to the stored number.
  int64_t Stored(int64_t number, int64_t OmittedPages::* first,
                 int64_t OmittedPages::* count) const {
    for (const OmittedPages& omitted : pages_.omitted) {
      if (number >= omitted.*first) number += omitted.*count;
    }
    return number;
  }

  Status SkipTo(int64_t row) {
    int64_t rows = row - base_row_;
    while (next_omitted_ < pages_.omitted.size() &&
           pages_.omitted[next_omitted_].row < row) {
      rows -= pages_.omitted[next_omitted_++].rows;
    }
    base_row_ = row;
    if (rows <= 0) return Status::OK();
    return Call([rows](Reader& base) { return base.Skip(rows); });
  }

  SelectedRows rows_;
  const bool blocks_;
  ChunkPages pages_;
  size_t next_omitted_ = 0;  // the first omitted pages behind the base
  // nulls of selected rows are errors here, but not in the base
  bool refuses_nulls_ = false;
  std::unique_ptr<ColumnSpec> filled_;
  std::unique_ptr<Reader> base_;
  int64_t base_row_ = 0;  // the stored row that the base reads next
  Block block_;
};

class SelectedFixedReader : public Selected<FixedReader> {
 public:
  SelectedFixedReader(const ColumnSpec& spec, RowBits bits, bool blocks, ChunkPages pages)
      : Selected(bits, blocks, std::move(pages)), width_(ItemSize(spec.dtype)) {}

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    while (rows > 0) {
      ARROW_ASSIGN_OR_RAISE(Span span, Next(rows));
      if (span.whole()) {
        uint8_t* const span_valid = ValidOf(span, valid);
        ARROW_RETURN_NOT_OK(Call([&](FixedReader& base) {
          return base.Read(span.rows, out, stride, span_valid);
        }));
        ARROW_RETURN_NOT_OK(CheckNulls(span, span_valid, nullptr));
      } else {
        ARROW_ASSIGN_OR_RAISE(span, ReadMarkedSpan(span, out, stride, valid));
      }
      out += span.selected * stride;
      if (valid != nullptr) valid += span.selected;
      rows -= span.selected;
    }
    return Status::OK();
  }

  Result<std::span<const uint8_t>> Dictionary() override {
    ARROW_RETURN_NOT_OK(Align());
    return Call([](FixedReader& base) { return base.Dictionary(); });
  }

  Result<int64_t> ReadCodes(int64_t rows, const Codes& codes, uint8_t* out,
                            uint8_t* valid) override {
    int64_t done = 0;
    while (done < rows) {
      ARROW_ASSIGN_OR_RAISE(const Span span, Next(rows - done));
      ARROW_ASSIGN_OR_RAISE(const Span read, ReadCodeSpan(span, codes, out, valid));
      out += read.selected * codes.bytes;
      if (valid != nullptr) valid += read.selected;
      done += read.selected;
      if (read.rows < span.rows) break;
    }
    return done;
  }

 private:
  // Reads the selected rows of a span with gaps. Returns the part that was read.
  Result<Span> ReadMarkedSpan(Span span, uint8_t* out, int64_t stride, uint8_t* valid) {
    const uint64_t* const marks = Marks(span);
    ARROW_ASSIGN_OR_RAISE(const int64_t read, Call([&](FixedReader& base) {
                            return base.ReadMarked(span.rows, marks, span.selected, out,
                                                   stride);
                          }));
    if (read > 0) {
      span = Front(span, read, marks);
      if (valid != nullptr) std::memset(valid, 1, static_cast<size_t>(span.selected));
      return span;
    }
    uint8_t* const span_valid = ValidOf(span, valid);
    block().values.resize(SelectedRows::kBlockRows);
    uint8_t* const decoded = block().bytes();
    ARROW_RETURN_NOT_OK(Call([&](FixedReader& base) {
      return base.Read(span.rows, decoded, width_, span_valid);
    }));
    ARROW_RETURN_NOT_OK(CheckNulls(span, span_valid, marks));
    CopyMarked(decoded, width_, marks, span.selected, out, stride);
    CopyValid(span, span_valid, marks, valid);
    return span;
  }

  // Reads the codes of the span. Returns the part that was read; the rest has no codes.
  Result<Span> ReadCodeSpan(Span span, const Codes& codes, uint8_t* out, uint8_t* valid) {
    uint8_t* const span_valid = ValidOf(span, valid);
    const bool whole = span.whole();
    if (!whole) block().values.resize(SelectedRows::kBlockRows);
    uint8_t* const to = whole ? out : block().bytes();
    ARROW_ASSIGN_OR_RAISE(const int64_t read, Call([&](FixedReader& base) {
                            return base.ReadCodes(span.rows, codes, to, span_valid);
                          }));
    const uint64_t* const marks = whole ? nullptr : Marks(span);
    span = Front(span, read, marks);
    ARROW_RETURN_NOT_OK(CheckNulls(span, span_valid, marks));
    if (!whole) {
      CopyMarked(to, codes.bytes, marks, span.selected, out, codes.bytes);
      CopyValid(span, span_valid, marks, valid);
    }
    return span;
  }

  const int64_t width_;
};

class SelectedBytesReader : public Selected<BytesReader> {
 public:
  using Selected::Selected;

  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena* arena) override {
    while (rows > 0) {
      ARROW_ASSIGN_OR_RAISE(const Span span, Next(rows));
      uint8_t* const span_valid = ValidOf(span, valid);
      ByteView* to = views;
      if (!span.whole()) {
        block().views.resize(SelectedRows::kBlockRows);
        to = block().views.data();
      }
      ARROW_RETURN_NOT_OK(Call([&](BytesReader& base) {
        return base.Read(span.rows, to, span_valid, arena);
      }));
      const uint64_t* const marks = span.whole() ? nullptr : Marks(span);
      ARROW_RETURN_NOT_OK(CheckNulls(span, span_valid, marks));
      if (marks != nullptr) {
        constexpr auto kView = static_cast<int64_t>(sizeof(ByteView));
        CopyMarked(reinterpret_cast<const uint8_t*>(to), kView, marks, span.selected,
                   reinterpret_cast<uint8_t*>(views), kView);
        CopyValid(span, span_valid, marks, valid);
      }
      views += span.selected;
      if (valid != nullptr) valid += span.selected;
      rows -= span.selected;
    }
    return Status::OK();
  }
};

// A reader of selected rows of lists. Reads run by run, because the gaps have to be
// walked in either case.
class SelectedNestedReader : public Selected<NestedReader> {
 public:
  SelectedNestedReader(RowBits bits, ChunkPages pages)
      : Selected(bits, /*blocks=*/false, std::move(pages)) {}

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    while (rows > 0) {
      ARROW_ASSIGN_OR_RAISE(const Span span, Next(rows));
      ARROW_RETURN_NOT_OK(
          Call([&](NestedReader& base) { return base.Read(span.rows, out, valid); }));
      rows -= span.rows;
    }
    return Status::OK();
  }
};

}  // namespace

Result<std::unique_ptr<FixedReader>> MakeSelectedFixedReader(ChunkInput input,
                                                             const ColumnSpec* spec,
                                                             RowBits bits,
                                                             ChunkPages pages) {
  auto reader = std::make_unique<SelectedFixedReader>(
      *spec, bits, NeverFails(*spec, input), std::move(pages));
  ARROW_RETURN_NOT_OK(reader->Open(std::move(input), spec, MakeFixedReader));
  return reader;
}

Result<std::unique_ptr<BytesReader>> MakeSelectedBytesReader(ChunkInput input,
                                                             const ColumnSpec* spec,
                                                             RowBits bits,
                                                             ChunkPages pages) {
  auto reader = std::make_unique<SelectedBytesReader>(bits, NeverFails(*spec, input),
                                                      std::move(pages));
  ARROW_RETURN_NOT_OK(reader->Open(std::move(input), spec, MakeBytesReader));
  return reader;
}

Result<std::unique_ptr<NestedReader>> MakeSelectedNestedReader(ChunkInput input,
                                                               const ColumnSpec* spec,
                                                               RowBits bits,
                                                               ChunkPages pages) {
  auto reader = std::make_unique<SelectedNestedReader>(bits, std::move(pages));
  ARROW_RETURN_NOT_OK(reader->Open(std::move(input), spec, NestedReader::Make));
  return reader;
}

}  // namespace fastload
