#include "fastload/decode/lists/nested_cursor.h"

#include <algorithm>
#include <string>
#include <utility>

namespace fastload {

namespace {

// Returns the rows of a V2 page, or -1 where the header can't be relied upon: Arrow
// before version 13 wrote the number of values instead of rows.
int64_t RowsOf(int64_t num_rows, int64_t num_values) {
  return num_rows > 0 && num_rows < num_values ? num_rows : -1;
}

Status BeyondChunk(int64_t wanted, int64_t left) {
  return MakeError(ErrorKind::kCorruptFile,
                   "Expected at least " + std::to_string(wanted) + " more rows, got " +
                       std::to_string(left));
}

// Returns true if a row begins at level number `level` of the span.
bool Starts(const LevelSpan& span, int64_t level) {
  if (span.row_length > 0) return level % span.row_length == 0;
  if (span.start_levels == nullptr) return span.repetition[level] == 0;
  return std::binary_search(span.start_levels, span.start_levels + span.starts,
                            span.first + level);
}

int64_t Present(const LevelSpan& span, int max_definition) {
  if (span.all_present()) return span.levels;
  int64_t present = 0;
  for (int64_t i = 0; i < span.levels; ++i) {
    present += span.definition[i] == max_definition ? 1 : 0;
  }
  return present;
}

}  // namespace

NestedCursor::NestedCursor(ChunkInput input, PageValues* values, int64_t row_length,
                           int present)
    : max_definition_(present),
      pages_(
          std::move(input.pages), values,
          [this](const parquet::DataPageStats& stats) { return PassOver(stats); },
          input.decoded_pages, arrow::default_memory_pool(), std::move(input.dictionary)),
      values_(values),
      known_page_rows_(std::move(input.page_rows)),
      levels_(*input.descr, row_length, present),
      rows_(input.rows),
      rows_left_(input.rows),
      levels_left_(input.levels) {}

bool NestedCursor::PassOver(const parquet::DataPageStats& stats) {
  levels_left_ -= stats.num_values;
  const auto number = static_cast<size_t>(pages_.page());
  int64_t rows = -1;
  if (number < known_page_rows_.size()) {
    rows = known_page_rows_[number];
  } else if (stats.num_rows.has_value()) {
    rows = RowsOf(*stats.num_rows, stats.num_values);
  }
  if (rows < 0 || rows > skip_) return false;
  skip_ -= rows;
  open_ = false;
  return true;
}

Status NestedCursor::Skip(int64_t rows) {
  if (rows > rows_left_) return BeyondChunk(rows, rows_left_);
  rows_left_ -= rows;
  skip_ += rows;
  return Status::OK();
}

Result<bool> NestedCursor::NextPage() {
  do {
    ARROW_ASSIGN_OR_RAISE(const parquet::DataPage* page, pages_.Next());
    if (page == nullptr) return false;
    if (levels_left_ < 0) {
      return MakeError(ErrorKind::kCorruptFile,
                       "Expected pages of as many values as the footer says, got " +
                           std::to_string(-levels_left_) + " more");
    }
    page_starts_ = 0;
    page_rows_ = -1;
    page_ends_rows_ = page->type() == parquet::PageType::DATA_PAGE_V2;
    if (page_ends_rows_) {
      open_ = false;
      page_rows_ = RowsOf(static_cast<const parquet::DataPageV2*>(page)->num_rows(),
                          page->num_values());
    }
    const auto number = static_cast<size_t>(pages_.page());
    if (number < known_page_rows_.size()) page_rows_ = known_page_rows_[number];
    ARROW_ASSIGN_OR_RAISE(const int64_t offset, levels_.SetPage(*page));
    ARROW_RETURN_NOT_OK(pages_.SetValues(offset));
  } while (levels_.left() == 0);
  return true;
}

Status NestedCursor::EndPage() {
  if (page_rows_ >= 0 && page_starts_ != page_rows_) {
    return MakeError(ErrorKind::kCorruptFile, "Expected " + std::to_string(page_rows_) +
                                                  " rows in the page, got " +
                                                  std::to_string(page_starts_));
  }
  if (page_ends_rows_) open_ = false;
  return Status::OK();
}

Result<LevelSpan> NestedCursor::Next(int64_t rows) { return NextOf(rows); }

Result<LevelSpan> NestedCursor::NextOf(const int64_t& rows) {
  while (levels_.left() == 0) {
    if (rows == 0 && !open_) return LevelSpan{};
    ARROW_ASSIGN_OR_RAISE(const bool found, NextPage());
    if (found) break;
    if (rows > 0) {
      return MakeError(ErrorKind::kCorruptFile,
                       "Expected " + std::to_string(rows) +
                           " more rows, got the end of the column chunk");
    }
    open_ = false;
  }
  ARROW_ASSIGN_OR_RAISE(const LevelSpan span, levels_.Next(rows));
  if (span.levels == 0) {
    open_ = false;
    return span;
  }
  if (!open_ && !span.begins_row()) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a page that begins with a row, got the rest of one");
  }
  open_ = true;
  page_starts_ += span.starts;
  if (levels_.left() == 0) ARROW_RETURN_NOT_OK(EndPage());
  return span;
}

Status NestedCursor::DropSkipped() {
  int64_t values = 0;
  int64_t page = pages_.page();
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const LevelSpan span, NextOf(skip_));
    // The rest of a page from which no value is read needs no decoding.
    if (pages_.page() != page) values = 0;
    page = pages_.page();
    if (span.levels == 0) break;
    skip_ -= span.starts;
    values += Present(span, max_definition_);
  }
  if (values > 0 && levels_.left() > 0) return values_->Skip(values);
  return Status::OK();
}

Status NestedCursor::LevelIn(const LevelSpan& span, int64_t rows,
                             const Status& status) const {
  const auto level = ValueOf(status);
  if (!level.has_value()) return status;
  // The number of rows that have begun when the level is reached.
  int64_t begun = rows_ - rows_left_ - rows;
  for (int64_t i = 0; i <= *level; ++i) begun += Starts(span, i) ? 1 : 0;
  return AtRow(status, begun - 1);
}

Status NestedCursor::Begin(int64_t rows) {
  if (rows > rows_left_) return BeyondChunk(rows, rows_left_);
  if (skip_ > 0) ARROW_RETURN_NOT_OK(DropSkipped());
  rows_left_ -= rows;
  return Status::OK();
}

Status NestedCursor::Read(int64_t rows, ListAssembler* assembler) {
  ARROW_RETURN_NOT_OK(Begin(rows));
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const LevelSpan span, Next(rows));
    if (span.levels == 0) return assembler->Finish();
    const Status status = assembler->Add(span);
    if (!status.ok()) return LevelIn(span, rows, status);
    rows -= span.starts;
  }
}

}  // namespace fastload
