#include <string>
#include <utility>

#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/pages/page_cursor.h"
#include "fastload/decode/values/bytes_values.h"

namespace fastload {

namespace {

class FlatBytesReader : public BytesReader {
 public:
  FlatBytesReader(ChunkInput input, const ColumnSpec* spec)
      : spec_(spec), values_(input.descr), cursor_(std::move(input), &values_) {}

  Status Skip(int64_t rows) override {
    return CatchParquet([&] { return cursor_.Skip(rows); });
  }

  Status Read(int64_t rows, ByteView* views, uint8_t* valid, ByteArena* arena) override {
    return CatchParquet([&] { return ReadRows(rows, views, valid, arena); });
  }

  int64_t page() const override { return cursor_.page(); }

 private:
  Status ReadRows(int64_t rows, ByteView* views, uint8_t* valid, ByteArena* arena) {
    while (rows > 0) {
      ARROW_ASSIGN_OR_RAISE(const DefinitionLevels::Span span, cursor_.Next(rows));
      if (span.non_null > 0) {
        ARROW_RETURN_NOT_OK(values_.Decode(span.non_null, views, arena));
      }
      if (span.non_null < span.rows) {
        if (!spec_->fill.has_value()) return cursor_.NullIn(span);
        Spread(span, *spec_->fill, views);
      }
      if (valid != nullptr) {
        span.StoreValid(valid);
        valid += span.rows;
      }
      views += span.rows;
      rows -= span.rows;
    }
    return Status::OK();
  }

  // Moves the span's values, which are dense at the front of `views`, to their rows, and
  // writes `nulls` to the other rows. The loop runs from the back, so that a value never
  // overwrites a value that has still to move.
  static void Spread(const DefinitionLevels::Span& span, const std::string& nulls,
                     ByteView* views) {
    const ByteView fill{reinterpret_cast<const uint8_t*>(nulls.data()),
                        static_cast<int64_t>(nulls.size())};
    int64_t next = span.non_null;
    for (int64_t row = span.rows - 1; row >= 0; --row) {
      const bool present = span.valid != nullptr && span.valid[row] != 0;
      views[row] = present ? views[--next] : fill;
    }
  }

  const ColumnSpec* spec_;
  BytesValues values_;
  PageCursor cursor_;  // holds a pointer to values_
};

}  // namespace

Result<std::unique_ptr<BytesReader>> MakeBytesReader(ChunkInput input,
                                                     const ColumnSpec* spec) {
  ARROW_RETURN_NOT_OK(CheckBytes(*input.descr));
  if (input.descr->max_repetition_level() != 0) {
    return MakeError(ErrorKind::kUnsupported,
                     "Expected a flat column, got a repeated one");
  }
  return std::make_unique<FlatBytesReader>(std::move(input), spec);
}

}  // namespace fastload
