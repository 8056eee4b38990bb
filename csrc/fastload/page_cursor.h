// Walks the pages of one flat column chunk and tells its rows from its values.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/chunk_reader.h"
#include "fastload/definition_levels.h"
#include "fastload/status.h"
#include "parquet/column_page.h"

namespace fastload {

// Decodes the values (without nulls) of the pages it is given.
class PageValues {
 public:
  virtual ~PageValues() = default;

  virtual Status SetDictionary(const parquet::DictionaryPage& page) = 0;

  // The values of a data page: `size` bytes, borrowed until the next call, that hold at
  // most `max_values` values.
  virtual Status SetPage(parquet::Encoding::type encoding, const uint8_t* data,
                         int64_t size, int64_t max_values) = 0;

  virtual Status Skip(int64_t values) = 0;
};

// What libparquet throws passes through; callers wrap their work in CatchParquet.
class PageCursor {
 public:
  // `values` is borrowed and outlives the cursor.
  PageCursor(ChunkInput input, PageValues* values);
  PageCursor(const PageCursor&) = delete;  // the page filter points to it
  PageCursor& operator=(const PageCursor&) = delete;

  // Passes over `rows` rows. Whole pages are passed over when the next rows are read.
  Status Skip(int64_t rows);

  // Goes to the page of the next row; there must be one.
  Status Load();

  // The next rows, at most `max_rows` (more than 0). Their values, as many as the span
  // has rows that are not null, must be taken from the PageValues before the next call.
  Result<DefinitionLevels::Span> Next(int64_t max_rows);

  int64_t page() const { return page_; }

  // The error of a null in `span`, the one that Next gave last, at its row of the row
  // group.
  Status NullIn(const DefinitionLevels::Span& span) const;

  // The error of one of the values of `span`, the one that Next gave last, at the value's
  // row of the row group. Any other error comes back as it is.
  Status ValueIn(const DefinitionLevels::Span& span, const Status& status) const;

 private:
  Status NextPage();
  Status SkipInPage(int64_t rows);

  std::unique_ptr<parquet::PageReader> pages_;
  PageValues* values_;
  DefinitionLevels levels_;
  std::shared_ptr<parquet::Page> current_;  // what values_ and levels_ borrow from
  bool has_dictionary_ = false;
  int64_t page_ = -1;
  int64_t rows_left_ = 0;  // in the page
  const int64_t rows_;     // of the row group
  int64_t rows_total_;     // of those, not yet read or skipped
  int64_t skip_ = 0;       // rows still to be passed over, beyond the page
};

}  // namespace fastload
