#include "fastload/decode/repeated_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fastload/base/gather.h"
#include "fastload/decode/pages/page_cursor.h"
#include "fastload/decode/selected_reader.h"

namespace fastload {
namespace {

using CopiesSpan = CopiesWalk::Span;

// Bytes of rows that are decoded at once before they are repeated; the rows stay in the
// L1 cache.
constexpr int64_t kBlockBytes = 16 << 10;
// Rows of lists that are decoded at once before they are repeated.
constexpr int64_t kNestedRows = 64;

// The common part of the readers: the position among the copies, and the base below.
template <typename Reader>
class Repeated : public Reader {
 public:
  Repeated(const RepeatedRows& rows, int64_t block_rows)
      : rows_(rows), walk_(rows.copies), block_rows_(block_rows) {}

  // Makes the base, which reads `spec` except that nulls in rows without copies are no
  // error.
  Status Open(const ColumnSpec* spec, const MakeBase<Reader>& make) {
    refuses_nulls_ = rows_.nullable && rows_.decodes_gaps && !spec->fill.has_value();
    if (refuses_nulls_) {
      filled_ = std::make_unique<ColumnSpec>(FilledSpec(*spec));
      spec = filled_.get();
    }
    return make(spec).Value(&base_);
  }

  Status Skip(int64_t copies) override {
    const bool same = walk_.cut() && walk_.Same(copies + 1) > copies;
    walk_.Skip(copies);
    if (!same && copies > 0) Forget();
    return Status::OK();
  }

  int64_t page() const override { return base_->page(); }

 protected:
  // Drops the row that is held: the next copies are of a row that was not read yet.
  virtual void Forget() = 0;

  CopiesWalk& walk() { return walk_; }
  Reader& base() { return *base_; }

  // Moves the base to `row`.
  Status SkipTo(int64_t row) {
    const int64_t rows = row - base_row_;
    base_row_ = std::max(base_row_, row);
    return rows <= 0 ? Status::OK() : base_->Skip(rows);
  }

  // Returns the next rows, with at most `most` copies, and moves the base to the span's
  // first row.
  Result<CopiesSpan> Next(int64_t most) {
    const CopiesSpan span = walk_.Next(most, block_rows_, rows_.decodes_gaps);
    if (span.rows == 0) return Status::Invalid("Expected more copies of rows, got none");
    ARROW_RETURN_NOT_OK(PassOver(span.row, span.rows));
    return span;
  }

  // Moves the base to `row`, from which on the caller reads `rows` rows.
  Status PassOver(int64_t row, int64_t rows) {
    ARROW_RETURN_NOT_OK(SkipTo(row));
    base_row_ = row + rows;
    return Status::OK();
  }

  // Goes back by `copies` copies, to the row at which the base stopped inside a span.
  void Return(int64_t copies, int64_t row) {
    walk_.Return(copies);
    base_row_ = row;
  }
  // Copies of the row whose copies were cut, at most `most`; 0: no row was cut.
  int64_t Left(int64_t most) const { return walk_.cut() ? walk_.Same(most) : 0; }

  // Returns the bytes for the validity of a span's rows: the caller's, or other bytes.
  uint8_t* ValidOf(const CopiesSpan& span, uint8_t* valid) {
    return span.single && valid != nullptr ? valid : OwnValid(valid != nullptr);
  }
  // Returns bytes for the validity of the rows of a block; null if neither the caller nor
  // CheckNulls wants the validity.
  uint8_t* OwnValid(bool wanted) {
    if (!wanted && !refuses_nulls_) return nullptr;
    valid_.resize(CopiesWalk::kBlockRows);
    return valid_.data();
  }

  // Returns an error if a row with copies is null; `valid` has the validity of `rows`
  // rows from `row` on.
  Status CheckNulls(int64_t row, int64_t rows, const uint8_t* valid) const {
    if (!refuses_nulls_) return Status::OK();
    if (std::memchr(valid, 0, static_cast<size_t>(rows)) == nullptr) return Status::OK();
    for (int64_t i = 0; i < rows; ++i) {
      if (valid[i] != 0 || !rows_.copies.Has(row + i)) continue;
      SelectedRows stored(rows_.bits);
      stored.Skip(row + i);
      return UnexpectedNull(stored.row());
    }
    return Status::OK();
  }

 private:
  RepeatedRows rows_;
  CopiesWalk walk_;
  const int64_t block_rows_;
  bool refuses_nulls_ = false;  // nulls are errors here, but not in the base
  std::unique_ptr<ColumnSpec> filled_;
  std::unique_ptr<Reader> base_;
  int64_t base_row_ = 0;  // the row that the base reads next
  std::vector<uint8_t> valid_;
};

// Returns positions that are all 0.
const uint16_t* Zeros() {
  static constexpr std::array<uint16_t, CopiesWalk::kBlockCopies> kZeros{};
  return kZeros.data();
}

// Writes the first `copies` copies of a span, of which `rows` has the rows. `rows` has
// kGatherNearSlack bytes more.
void GatherSpan(const uint8_t* rows, int64_t width, const CopiesSpan& span,
                int64_t copies, uint8_t* out, int64_t stride) {
  GatherNear(rows - span.positions[0] * width, width, span.positions, copies, out,
             stride);
}

// Does the same for the validity of the rows.
void GatherValid(const uint8_t* valid, const CopiesSpan& span, int64_t copies,
                 uint8_t* out) {
  Gather(valid - span.positions[0], 1, span.positions, copies, out, 1);
}

// Writes one row `rows` times.
void RepeatRow(const uint8_t* row, int64_t width, int64_t rows, uint8_t* out,
               int64_t stride) {
  for (int64_t done = 0; done < rows;) {
    const int64_t n = std::min(rows - done, CopiesWalk::kBlockCopies);
    Gather(row, width, Zeros(), n, out + done * stride, stride);
    done += n;
  }
}

class RepeatedFixedReader : public Repeated<FixedReader> {
 public:
  RepeatedFixedReader(const RepeatedRows& rows, const ColumnSpec& spec)
      : Repeated(rows, std::clamp<int64_t>(kBlockBytes / ItemBytes(spec), 1,
                                           CopiesWalk::kBlockRows)),
        width_(ItemBytes(spec)),
        fill_(spec.fill) {}

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    while (rows > 0) {
      int64_t n = Left(rows);
      if (n > 0) {
        ARROW_RETURN_NOT_OK(HoldValue(valid != nullptr));
        RepeatRow(held_row_.data(), width_, n, out, stride);
        if (valid != nullptr) std::memset(valid, held_valid_, static_cast<size_t>(n));
        walk().Skip(n);
      } else {
        ARROW_ASSIGN_OR_RAISE(const CopiesSpan span, Next(rows));
        ARROW_RETURN_NOT_OK(ReadSpan(span, out, stride, valid));
        n = span.copies;
      }
      out += n * stride;
      if (valid != nullptr) valid += n;
      rows -= n;
    }
    return Status::OK();
  }

  Result<std::span<const uint8_t>> Dictionary() override {
    if (walk().done()) return std::span<const uint8_t>();
    const bool cut = walk().cut();
    if (cut && held_ == Held::kCode) return dictionary_;
    if (cut && held_ == Held::kValue) return std::span<const uint8_t>();
    ARROW_RETURN_NOT_OK(SkipTo(walk().row()));
    ARROW_ASSIGN_OR_RAISE(dictionary_, base().Dictionary());
    return dictionary_;
  }

  Result<int64_t> ReadCodes(int64_t rows, const Codes& codes, uint8_t* out,
                            uint8_t* valid) override {
    int64_t done = 0;
    while (done < rows) {
      int64_t n = Left(rows - done);
      if (n > 0) {
        ARROW_ASSIGN_OR_RAISE(const bool coded, HoldCode(codes));
        if (!coded) break;
        const uint32_t code =
            held_valid_ != 0 ? held_code_ + codes.base : codes.null_code;
        // Codes are little-endian, so the low bytes are the shorter code.
        RepeatRow(reinterpret_cast<const uint8_t*>(&code), codes.bytes, n, out,
                  codes.bytes);
        if (valid != nullptr) std::memset(valid, held_valid_, static_cast<size_t>(n));
        walk().Skip(n);
      } else {
        ARROW_ASSIGN_OR_RAISE(const CopiesSpan span, Next(rows - done));
        ARROW_ASSIGN_OR_RAISE(n, ReadCodeSpan(span, codes, out, valid));
        if (n < span.copies) {
          done += n;
          break;
        }
      }
      out += n * codes.bytes;
      if (valid != nullptr) valid += n;
      done += n;
    }
    return done;
  }

 private:
  // How the row whose copies were cut is held.
  enum class Held : uint8_t { kUnread, kValue, kCode };

  void Forget() override { held_ = Held::kUnread; }

  uint8_t* Block() {
    block_.resize(static_cast<size_t>(
        std::max(kBlockBytes, std::max<int64_t>(width_, sizeof(uint64_t))) +
        kGatherNearSlack));
    return block_.data();
  }

  void Hold(const uint8_t* row, const uint8_t* valid) {
    held_row_.assign(row, row + width_);
    held_valid_ = valid == nullptr ? 1 : *valid;
    held_ = Held::kValue;
  }

  Status ReadSpan(const CopiesSpan& span, uint8_t* out, int64_t stride, uint8_t* valid) {
    uint8_t* const span_valid = ValidOf(span, valid);
    if (span.single) {
      ARROW_RETURN_NOT_OK(base().Read(span.rows, out, stride, span_valid));
      return CheckNulls(span.row, span.rows, span_valid);
    }
    uint8_t* const block = Block();
    ARROW_RETURN_NOT_OK(base().Read(span.rows, block, width_, span_valid));
    ARROW_RETURN_NOT_OK(CheckNulls(span.row, span.rows, span_valid));
    GatherSpan(block, width_, span, span.copies, out, stride);
    if (valid != nullptr) GatherValid(span_valid, span, span.copies, valid);
    if (walk().cut()) {
      const int64_t last = span.rows - 1;
      Hold(block + last * width_, span_valid == nullptr ? nullptr : span_valid + last);
    }
    return Status::OK();
  }

  // Reads the codes of the span. Returns the number of copies that were written; the
  // other rows have no codes.
  Result<int64_t> ReadCodeSpan(const CopiesSpan& span, const Codes& codes, uint8_t* out,
                               uint8_t* valid) {
    uint8_t* const span_valid = ValidOf(span, valid);
    uint8_t* const to = span.single ? out : Block();
    ARROW_ASSIGN_OR_RAISE(const int64_t read,
                          base().ReadCodes(span.rows, codes, to, span_valid));
    ARROW_RETURN_NOT_OK(CheckNulls(span.row, read, span_valid));
    int64_t copies = span.copies;
    if (read < span.rows) {
      copies = span.single
                   ? read
                   : std::lower_bound(span.positions, span.positions + span.copies,
                                      span.positions[0] + read) -
                         span.positions;
    }
    if (copies < span.copies) Return(span.copies - copies, span.row + read);
    if (span.single) return copies;
    GatherSpan(to, codes.bytes, span, copies, out, codes.bytes);
    if (valid != nullptr) GatherValid(span_valid, span, copies, valid);
    if (walk().cut()) Keep(to + (span.rows - 1) * codes.bytes, codes);
    return copies;
  }

  // Holds the row whose code is at `code`.
  void Keep(const uint8_t* code, const Codes& codes) {
    uint32_t value = 0;
    std::memcpy(&value, code, static_cast<size_t>(codes.bytes));
    held_valid_ = value != codes.null_code;
    held_code_ = value - codes.base;
    held_ = Held::kCode;
  }

  // Holds the value of the row whose copies were cut.
  Status HoldValue(bool with_valid) {
    if (held_ == Held::kUnread) {
      const int64_t row = walk().row();
      ARROW_RETURN_NOT_OK(PassOver(row, 1));
      uint8_t* const valid = OwnValid(with_valid);
      ARROW_RETURN_NOT_OK(base().Read(1, Block(), width_, valid));
      ARROW_RETURN_NOT_OK(CheckNulls(row, 1, valid));
      Hold(block_.data(), valid);
    } else if (held_ == Held::kCode) {
      const uint8_t valid = held_valid_;
      // Codes of nulls are read only where nulls have a fill.
      const auto* const value = valid != 0 || !fill_.has_value()
                                    ? dictionary_.data() + int64_t{held_code_} * width_
                                    : reinterpret_cast<const uint8_t*>(fill_->data());
      Hold(value, &valid);
    }
    return Status::OK();
  }

  // Holds the code of the row whose copies were cut. Returns false if the row has no
  // code.
  Result<bool> HoldCode(const Codes& codes) {
    if (held_ != Held::kUnread) return held_ == Held::kCode;
    const int64_t row = walk().row();
    ARROW_RETURN_NOT_OK(PassOver(row, 1));
    uint8_t* const valid = OwnValid(true);
    ARROW_ASSIGN_OR_RAISE(const int64_t read, base().ReadCodes(1, codes, Block(), valid));
    if (read == 0) {
      Return(0, row);
      return false;
    }
    ARROW_RETURN_NOT_OK(CheckNulls(row, 1, valid));
    Keep(block_.data(), codes);
    return true;
  }

  const int64_t width_;
  const std::optional<std::string> fill_;
  std::span<const uint8_t> dictionary_;  // the latest one, which outlives its pages
  std::vector<uint8_t> block_;
  Held held_ = Held::kUnread;
  uint8_t held_valid_ = 1;
  uint32_t held_code_ = 0;
  std::vector<uint8_t> held_row_;
};

class RepeatedBytesReader : public Repeated<BytesReader> {
 public:
  explicit RepeatedBytesReader(const RepeatedRows& rows)
      : Repeated(rows, CopiesWalk::kBlockRows) {}

  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena* arena) override {
    while (rows > 0) {
      int64_t n = Left(rows);
      if (n > 0) {
        ARROW_ASSIGN_OR_RAISE(const ByteView view, HeldView(valid != nullptr, arena));
        std::fill_n(views, n, view);
        if (valid != nullptr) std::memset(valid, held_valid_, static_cast<size_t>(n));
        walk().Skip(n);
      } else {
        ARROW_ASSIGN_OR_RAISE(const CopiesSpan span, Next(rows));
        ARROW_RETURN_NOT_OK(ReadSpan(span, views, valid, arena));
        n = span.copies;
      }
      views += n;
      if (valid != nullptr) valid += n;
      rows -= n;
    }
    return Status::OK();
  }

 private:
  void Forget() override { held_ = false; }

  Status ReadSpan(const CopiesSpan& span, ByteView* views, uint8_t* valid,
                  ByteArena* arena) {
    uint8_t* const span_valid = ValidOf(span, valid);
    ByteView* to = views;
    if (!span.single) {
      views_.resize(CopiesWalk::kBlockRows);
      to = views_.data();
    }
    ARROW_RETURN_NOT_OK(base().Read(span.rows, to, span_valid, arena));
    ARROW_RETURN_NOT_OK(CheckNulls(span.row, span.rows, span_valid));
    if (span.single) return Status::OK();
    const uint16_t* const positions = span.positions;
    for (int64_t i = 0; i < span.copies; ++i) views[i] = to[positions[i] - positions[0]];
    if (valid != nullptr) GatherValid(span_valid, span, span.copies, valid);
    if (walk().cut()) {
      const int64_t last = span.rows - 1;
      Hold(to[last], span_valid == nullptr ? nullptr : span_valid + last);
    }
    return Status::OK();
  }

  // Copies the bytes of a view, which may live no longer than the arena.
  void Hold(const ByteView& view, const uint8_t* valid) {
    held_bytes_.assign(view.data, view.data + view.size);
    held_valid_ = valid == nullptr ? 1 : *valid;
    held_ = true;
  }

  // Returns a view of the row whose copies were cut, whose bytes lie in `arena`.
  Result<ByteView> HeldView(bool with_valid, ByteArena* arena) {
    if (!held_) {
      const int64_t row = walk().row();
      ARROW_RETURN_NOT_OK(PassOver(row, 1));
      uint8_t* const valid = OwnValid(with_valid);
      ByteView view;
      ARROW_RETURN_NOT_OK(base().Read(1, &view, valid, arena));
      ARROW_RETURN_NOT_OK(CheckNulls(row, 1, valid));
      Hold(view, valid);
      return view;
    }
    const auto size = static_cast<int64_t>(held_bytes_.size());
    if (size == 0) return ByteView{nullptr, 0};
    ARROW_ASSIGN_OR_RAISE(uint8_t* const bytes, arena->Allocate(size));
    std::memcpy(bytes, held_bytes_.data(), held_bytes_.size());
    return ByteView{bytes, size};
  }

  std::vector<ByteView> views_;
  bool held_ = false;  // the row whose copies were cut was read
  uint8_t held_valid_ = 1;
  std::vector<uint8_t> held_bytes_;
};

// Appends row `row` of `from` to `to` `copies` times. Elements are `item` bytes an item;
// views are shared.
Status AppendCopies(const NestedRows& from, int64_t row, int64_t copies, int64_t item,
                    bool valid, NestedRows* to) {
  to->Begin(from.offsets.size());
  if (copies > 1) {
    int64_t first = row;
    int64_t end = row + 1;
    int64_t lists = 0;
    for (const std::vector<int64_t>& offsets : from.offsets) {
      lists += end - first;
      first = offsets[static_cast<size_t>(first)];
      end = offsets[static_cast<size_t>(end)];
    }
    const int64_t of_item = from.views.empty() ? item : int64_t{sizeof(ByteView)};
    const int64_t bytes =
        (end - first) * of_item + lists * static_cast<int64_t>(sizeof(int64_t));
    ARROW_RETURN_NOT_OK(to->fills.TakeCopies(copies - 1, bytes));
  }
  for (int64_t copy = 0; copy < copies; ++copy) {
    int64_t first = row;
    int64_t end = row + 1;
    to->AppendLists([&](size_t level) { return from.offsets[level].data(); }, &first,
                    &end);
    if (from.values.size() > 0 && end > first) {
      const int64_t bytes = (end - first) * item;
      ARROW_ASSIGN_OR_RAISE(uint8_t* const out, to->values.Extend(bytes));
      from.values.Copy(first * item, bytes, out);
    }
    if (!from.views.empty()) {
      to->views.insert(to->views.end(), from.views.begin() + first,
                       from.views.begin() + end);
    }
    if (valid) to->valid.push_back(from.valid[static_cast<size_t>(row)]);
  }
  return Status::OK();
}

// Reads runs of rows with copies, because the gaps have to be walked in either case.
class RepeatedNestedReader : public Repeated<NestedReader> {
 public:
  RepeatedNestedReader(const RepeatedRows& rows, const ColumnSpec& spec)
      : Repeated({.copies = rows.copies, .bits = rows.bits, .decodes_gaps = false},
                 kNestedRows),
        item_(ItemBytes(spec)) {
    block_.as_they_are = held_.as_they_are = true;
  }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    while (rows > 0) {
      int64_t n = Left(rows);
      if (n > 0) {
        ARROW_RETURN_NOT_OK(AppendHeld(n, out, valid));
        walk().Skip(n);
      } else {
        ARROW_ASSIGN_OR_RAISE(const CopiesSpan span, Next(rows));
        ARROW_RETURN_NOT_OK(ReadSpan(span, out, valid));
        n = span.copies;
      }
      rows -= n;
    }
    return Status::OK();
  }

 private:
  void Forget() override { read_ = false; }

  // Reads rows of the base to `block_`, whose bytes and fills belong to `out`.
  Status ReadBlock(int64_t rows, NestedRows* out, bool valid) {
    block_.Clear();
    std::swap(block_.bytes, out->bytes);
    std::swap(block_.fills, out->fills);
    const Status status = base().Read(rows, &block_, valid);
    std::swap(block_.bytes, out->bytes);
    std::swap(block_.fills, out->fills);
    return status;
  }

  Status ReadSpan(const CopiesSpan& span, NestedRows* out, bool valid) {
    if (span.single) return base().Read(span.rows, out, valid);
    ARROW_RETURN_NOT_OK(ReadBlock(span.rows, out, valid));
    const uint16_t* const end = span.positions + span.copies;
    for (const uint16_t* at = span.positions; at < end;) {
      const uint16_t* const next =
          std::find_if(at, end, [&](uint16_t p) { return p != *at; });
      ARROW_RETURN_NOT_OK(
          AppendCopies(block_, *at - span.positions[0], next - at, item_, valid, out));
      at = next;
    }
    return walk().cut() ? Hold(span.rows - 1, valid) : Status::OK();
  }

  // Copies a row of the block, with the bytes of its views.
  Status Hold(int64_t row, bool valid) {
    held_.Clear();
    ARROW_RETURN_NOT_OK(AppendCopies(block_, row, 1, item_, valid, &held_));
    read_ = true;
    return Adopt(&held_.views, &held_.bytes);
  }

  // Moves the bytes of views to `arena`.
  static Status Adopt(std::vector<ByteView>* views, ByteArena* arena) {
    for (ByteView& view : *views) {
      if (view.size == 0) continue;
      ARROW_ASSIGN_OR_RAISE(uint8_t* const bytes, arena->Allocate(view.size));
      std::memcpy(bytes, view.data, static_cast<size_t>(view.size));
      view.data = bytes;
    }
    return Status::OK();
  }

  // Appends the row whose copies were cut.
  Status AppendHeld(int64_t copies, NestedRows* out, bool valid) {
    if (!read_) {
      ARROW_RETURN_NOT_OK(PassOver(walk().row(), 1));
      ARROW_RETURN_NOT_OK(ReadBlock(1, out, valid));
      ARROW_RETURN_NOT_OK(Hold(0, valid));
    }
    // The copies share the bytes of their views.
    std::vector<ByteView> views = held_.views;
    ARROW_RETURN_NOT_OK(Adopt(&views, &out->bytes));
    std::swap(views, held_.views);
    const Status status = AppendCopies(held_, 0, copies, item_, valid, out);
    std::swap(views, held_.views);
    return status;
  }

  const int64_t item_;
  NestedRows block_;
  NestedRows held_;  // the row whose copies were cut, if it was read
  bool read_ = false;
};

}  // namespace

Result<std::unique_ptr<FixedReader>> MakeRepeatedFixedReader(
    const RepeatedRows& rows, const ColumnSpec* spec, const MakeBase<FixedReader>& make) {
  if (rows.copies.single()) return make(spec);
  auto reader = std::make_unique<RepeatedFixedReader>(rows, *spec);
  ARROW_RETURN_NOT_OK(reader->Open(spec, make));
  return reader;
}

Result<std::unique_ptr<BytesReader>> MakeRepeatedBytesReader(
    const RepeatedRows& rows, const ColumnSpec* spec, const MakeBase<BytesReader>& make) {
  if (rows.copies.single()) return make(spec);
  auto reader = std::make_unique<RepeatedBytesReader>(rows);
  ARROW_RETURN_NOT_OK(reader->Open(spec, make));
  return reader;
}

Result<std::unique_ptr<NestedReader>> MakeRepeatedNestedReader(
    const RepeatedRows& rows, const ColumnSpec* spec,
    const MakeBase<NestedReader>& make) {
  if (rows.copies.single()) return make(spec);
  auto reader = std::make_unique<RepeatedNestedReader>(rows, *spec);
  ARROW_RETURN_NOT_OK(reader->Open(spec, make));
  return reader;
}

}  // namespace fastload
