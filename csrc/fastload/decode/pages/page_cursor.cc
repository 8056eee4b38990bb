#include "fastload/decode/pages/page_cursor.h"

#include <algorithm>
#include <string>
#include <utility>

namespace fastload {

Status UnexpectedNull(int64_t row) {
  return AtRow(
      MakeError(ErrorKind::kNullValue,
                "Expected no null, got one (write fill= or valid=True for this "
                "column, or nulls=\"nan\" (for floats), \"zero\" or \"mask\" for all)"),
      row);
}

PageCursor::PageCursor(ChunkInput input, PageValues* values)
    : pages_(
          std::move(input.pages), values,
          [this](const parquet::DataPageStats& stats) {
            CheckRows(stats);
            // In a flat column every value, null or not, is a row.
            if (stats.num_values > skip_) return false;
            skip_ -= stats.num_values;
            return true;
          },
          input.decoded_pages, input.pool, std::move(input.dictionary)),
      values_(values),
      page_rows_(std::move(input.page_rows)),
      levels_(*input.descr),
      rows_(input.rows),
      rows_total_(input.rows) {}

void PageCursor::CheckRows(const parquet::DataPageStats& stats) const {
  if (page_rows_.empty()) return;
  const auto page = static_cast<size_t>(pages_.page());
  const int64_t rows = page < page_rows_.size() ? page_rows_[page] : 0;
  if (stats.num_values == rows) return;
  throw parquet::ParquetException("Expected a page of " + std::to_string(rows) +
                                  " rows, as the offset index says, got " +
                                  std::to_string(stats.num_values));
}

Status PageCursor::NextPage() {
  do {
    ARROW_ASSIGN_OR_RAISE(const parquet::DataPage* page, pages_.Next());
    if (page == nullptr) {
      return MakeError(ErrorKind::kCorruptFile,
                       "Expected " + std::to_string(skip_ + rows_total_) +
                           " more rows, got the end of the column chunk");
    }
    rows_left_ = page->num_values();
    ARROW_ASSIGN_OR_RAISE(level_bytes_, levels_.SetPage(*page));
    ARROW_RETURN_NOT_OK(pages_.SetValues(level_bytes_));
  } while (rows_left_ == 0);
  return Status::OK();
}

Status PageCursor::SkipInPage(int64_t rows) {
  while (rows > 0) {
    ARROW_ASSIGN_OR_RAISE(const auto span, levels_.Next(rows));
    if (span.non_null > 0) ARROW_RETURN_NOT_OK(values_->Skip(span.non_null));
    rows_left_ -= span.rows;
    rows -= span.rows;
  }
  return Status::OK();
}

Status PageCursor::Skip(int64_t rows) {
  if (rows > rows_total_) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected at least " + std::to_string(rows) + " more rows, got " +
                         std::to_string(rows_total_));
  }
  rows_total_ -= rows;
  if (skip_ == 0) {
    const int64_t here = std::min(rows, rows_left_);
    // The rest of a page that will not be read again needs no decoding.
    if (here < rows_left_) {
      ARROW_RETURN_NOT_OK(SkipInPage(here));
    } else {
      rows_left_ = 0;
    }
    rows -= here;
  }
  skip_ += rows;
  return Status::OK();
}

Status PageCursor::Load() {
  while (rows_left_ == 0 || skip_ > 0) {
    if (rows_left_ == 0) ARROW_RETURN_NOT_OK(NextPage());
    const int64_t here = std::min(skip_, rows_left_);
    skip_ -= here;
    ARROW_RETURN_NOT_OK(SkipInPage(here));
  }
  return Status::OK();
}

void PageCursor::Rest() {
  if (rows_left_ == 0) return pages_.Free();
  if (!levels_.movable()) return;
  const uint8_t* from = nullptr;
  const uint8_t* const to = pages_.KeepLeft(level_bytes_, &from);
  if (to != nullptr) levels_.Move(from, to);
}

Result<DefinitionLevels::Span> PageCursor::Next(int64_t max_rows) {
  if (max_rows > rows_total_) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected at least " + std::to_string(max_rows) +
                         " more rows, got " + std::to_string(rows_total_));
  }
  ARROW_RETURN_NOT_OK(Load());
  ARROW_ASSIGN_OR_RAISE(const auto span, levels_.Next(std::min(max_rows, rows_left_)));
  rows_left_ -= span.rows;
  rows_total_ -= span.rows;
  return span;
}

Result<int64_t> PageCursor::RowsWithoutNull(int64_t rows) {
  ARROW_RETURN_NOT_OK(Load());
  rows = std::min(rows, rows_left_);
  ARROW_ASSIGN_OR_RAISE(const bool none_null, levels_.NoneNull(rows));
  return none_null ? rows : 0;
}

Status PageCursor::NullIn(const DefinitionLevels::Span& span) const {
  int64_t row = 0;
  while (span.valid != nullptr && span.valid[row] != 0) ++row;
  return UnexpectedNull(rows_ - rows_total_ - span.rows + row);
}

Status PageCursor::ValueIn(const DefinitionLevels::Span& span,
                           const Status& status) const {
  const auto value = ValueOf(status);
  if (!value.has_value()) return status;
  int64_t row = *value;
  if (span.valid != nullptr) {
    row = 0;
    for (int64_t before = *value; before > 0 || span.valid[row] == 0; ++row) {
      before -= span.valid[row];
    }
  }
  return AtRow(status, rows_ - rows_total_ - span.rows + row);
}

}  // namespace fastload
