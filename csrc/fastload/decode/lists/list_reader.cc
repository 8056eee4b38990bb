#include "fastload/decode/lists/list_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "fastload/decode/lists/list_assembler.h"
#include "fastload/decode/lists/list_items.h"
#include "fastload/decode/lists/nested_cursor.h"
#include "fastload/decode/values/convert.h"
#include "fastload/decode/values/fixed_values.h"

namespace fastload {

namespace {

class FixedListReader : public FixedReader {
 public:
  // `values` is null if the leaf stands in for the column's own.
  FixedListReader(ChunkInput input, const ColumnSpec* spec,
                  std::unique_ptr<FixedValues> values)
      : list_size_(spec->list_size),
        row_bytes_(ItemBytes(*spec)),
        values_(std::move(values)),
        items_(values_.get(), spec),
        assembler_(
            ThresholdsOf(*input.descr, ListLevels(*spec), spec->SharedLevels(input.file)),
            spec, &items_),
        cursor_(
            std::move(input),
            values_ == nullptr ? static_cast<PageValues*>(&no_values_) : values_.get(),
            spec->list_size, assembler_.present()) {}

  Status Skip(int64_t rows) override {
    return CatchParquet([&] { return cursor_.Skip(rows); });
  }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    return CatchParquet([&] {
      return stride == row_bytes_ ? ReadDense(rows, out, valid)
                                  : ReadStrided(rows, out, stride, valid);
    });
  }

  int64_t page() const override { return cursor_.page(); }

 private:
  // The block for rows on their way to rows with gaps; the block fits the L1 cache unless
  // one row is longer.
  static constexpr int64_t kBlockBytes = 16384;

  Status ReadDense(int64_t rows, uint8_t* out, uint8_t* valid) {
    items_.SetOutput(out, rows * list_size_);
    valid_.clear();
    assembler_.Begin(nullptr, valid != nullptr ? &valid_ : nullptr);
    ARROW_RETURN_NOT_OK(cursor_.Read(rows, &assembler_));
    if (valid != nullptr) std::copy(valid_.begin(), valid_.end(), valid);
    return Status::OK();
  }

  Status ReadStrided(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) {
    const int64_t block_rows = std::max<int64_t>(kBlockBytes / row_bytes_, 1);
    block_.resize(static_cast<size_t>(block_rows * row_bytes_));
    while (rows > 0) {
      const int64_t count = std::min(rows, block_rows);
      ARROW_RETURN_NOT_OK(ReadDense(count, block_.data(), valid));
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(out + i * stride, block_.data() + i * row_bytes_,
                    static_cast<size_t>(row_bytes_));
      }
      out += count * stride;
      if (valid != nullptr) valid += count;
      rows -= count;
    }
    return Status::OK();
  }

  int64_t list_size_;
  int64_t row_bytes_;
  NoValues no_values_;
  std::unique_ptr<FixedValues> values_;
  MemoryItems items_;  // borrows values_
  ListAssembler assembler_;
  NestedCursor cursor_;  // holds a pointer to values_ or no_values_
  std::vector<uint8_t> block_;
  std::vector<uint8_t> valid_;
};

}  // namespace

Result<std::unique_ptr<FixedReader>> MakeListReader(ChunkInput input,
                                                    const ColumnSpec* spec) {
  if (spec->depth != 0) {
    return Status::Invalid("Expected a depth of 0, got ", spec->depth);
  }
  if (input.descr->max_repetition_level() == 0) {
    return MakeError(ErrorKind::kUnsupported,
                     "Expected a column of lists, got a flat one");
  }
  std::unique_ptr<FixedValues> values;
  if (spec->SharedLevels(input.file) == 0) {
    ARROW_ASSIGN_OR_RAISE(Converter converter,
                          Converter::Make(*input.descr, *spec, input.file));
    values = std::make_unique<FixedValues>(input.descr, std::move(converter), input.pool);
  }
  return std::make_unique<FixedListReader>(std::move(input), spec, std::move(values));
}

}  // namespace fastload
