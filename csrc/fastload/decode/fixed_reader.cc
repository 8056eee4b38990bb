#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "fastload/base/copy_marked.h"
#include "fastload/base/strided.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/lists/list_reader.h"
#include "fastload/decode/pages/page_cursor.h"
#include "fastload/decode/values/fixed_values.h"

namespace fastload {

namespace {

constexpr int64_t kBlockRows = DefinitionLevels::kBlockRows;

// Elements on their way to strided rows, or to rows among nulls.
struct Items {
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(block.data());
  }
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(block.data()); }

  std::array<uint64_t, kBlockRows + 1> block;
};

class FlatFixedReader : public FixedReader {
 public:
  FlatFixedReader(ChunkInput input, const ColumnSpec* spec, Converter converter)
      : spec_(spec),
        values_(input.descr, std::move(converter), input.pool),
        cursor_(std::move(input), &values_) {}

  Status Skip(int64_t rows) override {
    return CatchParquet([&] { return cursor_.Skip(rows); });
  }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    return CatchParquet([&] { return ReadRows(rows, {out, stride}, valid); });
  }

  Result<int64_t> ReadMarked(int64_t rows, const uint64_t* marks, int64_t marked,
                             uint8_t* out, int64_t stride) override {
    int64_t read = 0;
    ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
      ARROW_ASSIGN_OR_RAISE(const int64_t here, cursor_.RowsWithoutNull(rows));
      if (here == 0 || !values_.DecodesMarked(here)) return Status::OK();
      ARROW_RETURN_NOT_OK(cursor_.Next(here));
      read = here;
      if (read < rows) marked = CountMarks(marks, read);
      return values_.DecodeMarked(read, marks, marked, out, stride);
    }));
    return read;
  }

  Result<std::span<const uint8_t>> Dictionary() override {
    ARROW_RETURN_NOT_OK(CatchParquet([&] { return cursor_.Load(); }));
    return values_.coded() ? values_.dictionary() : std::span<const uint8_t>();
  }

  Result<int64_t> ReadCodes(int64_t rows, const Codes& codes, uint8_t* out,
                            uint8_t* valid) override {
    int64_t done = 0;
    ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
      while (done < rows) {
        ARROW_RETURN_NOT_OK(cursor_.Load());
        if (!values_.coded()) return Status::OK();
        ARROW_ASSIGN_OR_RAISE(const auto span, cursor_.Next(rows - done));
        ARROW_RETURN_NOT_OK(ReadCodeSpan(span, codes, out + done * codes.bytes));
        if (valid != nullptr) span.StoreValid(valid + done);
        done += span.rows;
      }
      return Status::OK();
    }));
    return done;
  }

  void Rest() override { cursor_.Rest(); }

  int64_t page() const override { return cursor_.page(); }

 private:
  Status ReadCodeSpan(const DefinitionLevels::Span& span, const Codes& codes,
                      uint8_t* out) {
    if (span.non_null == span.rows) {
      return values_.DecodeCodes(span.rows, codes.base, codes.bytes, out);
    }
    if (!spec_->fill.has_value()) return cursor_.NullIn(span);
    Items items;
    if (span.non_null > 0) {
      ARROW_RETURN_NOT_OK(
          values_.DecodeCodes(span.non_null, codes.base, codes.bytes, items.bytes()));
    }
    const Destination to{out, codes.bytes};
    WithItem(static_cast<int>(codes.bytes), [&]<typename T>(T) {
      const auto null_code = static_cast<T>(codes.null_code);
      if (span.non_null == 0) {
        Fill(null_code, span.rows, to);
      } else {
        Spread(items.as<T>(), span.valid, span.rows, null_code, to);
      }
    });
    return Status::OK();
  }

  Status ReadRows(int64_t rows, Destination to, uint8_t* valid) {
    while (rows > 0) {
      ARROW_ASSIGN_OR_RAISE(const DefinitionLevels::Span span, cursor_.Next(rows));
      const bool dense = span.non_null == span.rows;
      if (!dense && !spec_->fill.has_value()) return cursor_.NullIn(span);
      const Status status = dense ? ReadDense(span.rows, to) : ReadNullable(span, to);
      if (!status.ok()) return cursor_.ValueIn(span, status);
      if (valid != nullptr) {
        span.StoreValid(valid);
        valid += span.rows;
      }
      to.out += span.rows * to.stride;
      rows -= span.rows;
    }
    return Status::OK();
  }

  Status ReadDense(int64_t rows, Destination to) {
    const int item_size = values_.item_size();
    if (to.stride == item_size) return values_.Decode(rows, to.out);
    Items items;
    for (int64_t done = 0; done < rows; done += kBlockRows) {
      const int64_t count = std::min(rows - done, kBlockRows);
      const Status status = values_.Decode(count, items.bytes());
      if (!status.ok()) {
        const auto value = ValueOf(status);
        return value.has_value() ? AtValue(status, done + *value) : status;
      }
      WithItem(item_size, [&]<typename T>(T) { StoreStrided(items.as<T>(), count, to); });
      to.out += count * to.stride;
    }
    return Status::OK();
  }

  Status ReadNullable(const DefinitionLevels::Span& span, Destination to) {
    Items items;
    if (span.non_null > 0) {
      ARROW_RETURN_NOT_OK(values_.Decode(span.non_null, items.bytes()));
    }
    WithItem(values_.item_size(), [&]<typename T>(T fill) {
      std::memcpy(&fill, spec_->fill->data(), sizeof(T));
      if (span.non_null == 0) {
        Fill(fill, span.rows, to);
      } else {
        Spread(items.as<T>(), span.valid, span.rows, fill, to);
      }
    });
    return Status::OK();
  }

  const ColumnSpec* spec_;
  FixedValues values_;
  PageCursor cursor_;  // holds a pointer to values_
};

}  // namespace

Result<std::unique_ptr<FixedReader>> MakeFixedReader(ChunkInput input,
                                                     const ColumnSpec* spec) {
  if (spec->list_size > 0) return MakeListReader(std::move(input), spec);
  ARROW_ASSIGN_OR_RAISE(Converter converter,
                        Converter::Make(*input.descr, *spec, input.file));
  if (input.descr->max_repetition_level() != 0) {
    return MakeError(ErrorKind::kUnsupported,
                     "Expected a flat column, got a repeated one");
  }
  return std::make_unique<FlatFixedReader>(std::move(input), spec, std::move(converter));
}

}  // namespace fastload
