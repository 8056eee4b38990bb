#include "fastload/decode/lists/nested_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fastload/decode/lists/list_assembler.h"
#include "fastload/decode/lists/list_items.h"
#include "fastload/decode/lists/nested_cursor.h"

namespace fastload {

namespace {

// The most elements for which memory is reserved ahead, because the footer's number of
// elements may be wrong.
constexpr int64_t kMostExpected = int64_t{1} << 22;

class ListNestedReader : public NestedReader {
 public:
  ListNestedReader(ChunkInput input, const ColumnSpec* spec,
                   std::unique_ptr<PageValues> values, std::unique_ptr<NestedItems> items)
      : spec_(spec),
        values_(std::move(values)),
        items_(std::move(items)),
        assembler_(
            ThresholdsOf(*input.descr, ListLevels(*spec), spec->SharedLevels(input.file)),
            spec, items_->items()),
        mean_length_(input.levels == INT64_MAX || input.rows <= 0
                         ? 1
                         : static_cast<double>(input.levels) /
                               static_cast<double>(input.rows)),
        cursor_(std::move(input), values_.get(), /*row_length=*/0, assembler_.present()) {
  }

  Status Skip(int64_t rows) override {
    return CatchParquet([&] { return cursor_.Skip(rows); });
  }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    return CatchParquet([&] { return ReadRows(rows, out, valid); });
  }

  int64_t page() const override { return cursor_.page(); }

 private:
  Status ReadRows(int64_t rows, NestedRows* out, bool valid) {
    out->Begin(static_cast<size_t>(spec_->depth));
    const double expected = mean_length_ * static_cast<double>(rows);
    ARROW_RETURN_NOT_OK(
        items_->SetOutput(out, static_cast<int64_t>(std::clamp(
                                   expected, 0.0, static_cast<double>(kMostExpected)))));
    assembler_.Begin(&out->offsets, valid ? &out->valid : nullptr);
    return cursor_.Read(rows, &assembler_);
  }

  const ColumnSpec* spec_;
  std::unique_ptr<PageValues> values_;
  std::unique_ptr<NestedItems> items_;  // borrows values_
  ListAssembler assembler_;
  double mean_length_;   // elements per row, by the footer
  NestedCursor cursor_;  // holds a pointer to values_
};

// A reader that checks that every list that is not null has spec.list_items items.
class SizedNestedReader : public NestedReader {
 public:
  SizedNestedReader(std::unique_ptr<NestedReader> base, int64_t items)
      : base_(std::move(base)), items_(items) {}

  Status Skip(int64_t rows) override {
    row_ += rows;
    return base_->Skip(rows);
  }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    const size_t first = out->offsets.empty() ? 0 : out->offsets[0].size() - 1;
    const size_t first_valid = out->valid.size();
    ARROW_RETURN_NOT_OK(base_->Read(rows, out, /*valid=*/true));
    const int64_t* starts = out->offsets[0].data() + first;
    const uint8_t* present = out->valid.data() + first_valid;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t items = starts[i + 1] - starts[i];
      if (items == items_ || present[i] == 0) continue;
      return AtRow(
          MakeError(ErrorKind::kValue, "Expected lists of " + std::to_string(items_) +
                                           " elements, got " + std::to_string(items)),
          row_ + i);
    }
    row_ += rows;
    if (!valid) out->valid.resize(first_valid);
    return Status::OK();
  }

  int64_t page() const override { return base_->page(); }

 private:
  std::unique_ptr<NestedReader> base_;
  int64_t items_;
  int64_t row_ = 0;  // rows of the chunk before the next row
};

Status CheckLevels(const ChunkInput& input, const ColumnSpec& spec) {
  const int64_t levels = input.descr->max_repetition_level();
  if (spec.depth < 1) return Status::Invalid("Expected lists, got a depth of 0");
  const int32_t shared = spec.SharedLevels(input.file);
  if (shared > 0 && shared <= levels && shared <= ListLevels(spec)) return Status::OK();
  if (spec.list_size == 0 ? levels == spec.depth : levels > spec.depth) {
    return Status::OK();
  }
  const int64_t depth = spec.depth + (spec.list_size == 0 ? 0 : 1);
  if (levels > 0 && levels < depth && input.descr->logical_type()->is_null()) {
    return Status::OK();
  }
  const std::string more = spec.list_size == 0 ? "" : " or more";
  return MakeError(ErrorKind::kUnsupported,
                   "Expected a column of lists in lists, " + std::to_string(depth) +
                       more + " deep, got " + std::to_string(levels) + " deep");
}

}  // namespace

Result<std::unique_ptr<NestedReader>> NestedReader::Make(ChunkInput input,
                                                         const ColumnSpec* spec) {
  ARROW_RETURN_NOT_OK(CheckLevels(input, *spec));
  const auto make = [&](auto values, auto items) -> std::unique_ptr<NestedReader> {
    auto reader = std::make_unique<ListNestedReader>(std::move(input), spec,
                                                     std::move(values), std::move(items));
    if (spec->list_items < 0) return reader;
    return std::make_unique<SizedNestedReader>(std::move(reader), spec->list_items);
  };
  if (spec->SharedLevels(input.file) > 0) {
    std::unique_ptr<NestedItems> items;
    if (spec->lengths_only) {
      items = std::make_unique<CountedItems>();
    } else if (spec->bytes) {
      items = std::make_unique<ByteNestedItems>(nullptr, spec);
    } else {
      items = std::make_unique<FixedNestedItems>(nullptr, spec);
    }
    return make(std::make_unique<NoValues>(), std::move(items));
  }
  if (spec->bytes) {
    ARROW_RETURN_NOT_OK(CheckBytes(*input.descr));
    auto values = std::make_unique<BytesValues>(input.descr);
    auto items = std::make_unique<ByteNestedItems>(values.get(), spec);
    return make(std::move(values), std::move(items));
  }
  ARROW_ASSIGN_OR_RAISE(Converter converter,
                        Converter::Make(*input.descr, *spec, input.file));
  auto values =
      std::make_unique<FixedValues>(input.descr, std::move(converter), input.pool);
  if (spec->lengths_only) {
    auto items = std::make_unique<CountedItems>();
    return make(std::move(values), std::move(items));
  }
  auto items = std::make_unique<FixedNestedItems>(values.get(), spec);
  return make(std::move(values), std::move(items));
}

}  // namespace fastload
