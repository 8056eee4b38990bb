#include "fastload/fetch/page_selection.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "fastload/fetch/page_tables.h"

namespace fastload {
namespace {

ChunkPages WholeChunk(ByteRange chunk) { return {.ranges = {chunk}}; }

// Returns true if the pages follow one another, and each has a row: pages without rows
// would be left out in the middle of selected rows.
bool InOrder(const std::vector<PageExtent>& pages, ByteRange chunk, int64_t rows) {
  const int64_t end = chunk.offset + chunk.bytes;
  int64_t offset = chunk.offset;
  int64_t row = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    const PageExtent& page = pages[i];
    const bool at_row = i == 0 ? page.row == 0 : page.row > row;
    if (!at_row || page.row >= rows || page.offset < offset || page.offset > end ||
        page.bytes < 0 || page.bytes > end - page.offset) {
      return false;
    }
    offset = page.offset + page.bytes;
    row = page.row;
  }
  return !pages.empty();
}

// Finds the pages with a selected row, front to back.
class SelectedPages {
 public:
  SelectedPages(const std::vector<PageExtent>& pages, RowBits bits)
      : pages_(pages), bits_(bits) {}

  int64_t RowOf(size_t page) const {
    return page < pages_.size() ? pages_[page].row : bits_.rows;
  }

  // Returns the first page from `page` on that has a selected row, or the number of
  // pages.
  size_t From(size_t page) {
    if (bits_.numbers != nullptr) return FromOfNumbers(page);
    while (page < pages_.size() &&
           !AnyStays(bits_, RowOf(page), RowOf(page + 1) - RowOf(page))) {
      ++page;
    }
    return page;
  }

 private:
  size_t FromOfNumbers(size_t page) {
    const int64_t row = RowOf(page);
    while (number_ < bits_.count && bits_.numbers[number_] < row) ++number_;
    if (number_ == bits_.count) return pages_.size();
    const auto above = std::upper_bound(
        pages_.begin() + static_cast<std::ptrdiff_t>(page), pages_.end(),
        bits_.numbers[number_],
        [](int64_t number, const PageExtent& extent) { return number < extent.row; });
    return static_cast<size_t>(above - pages_.begin()) - 1;
  }

  const std::vector<PageExtent>& pages_;
  const RowBits bits_;
  int64_t number_ = 0;
};

// Picks from pages of which InOrder is true.
ChunkPages PickPagesInOrder(const std::vector<PageExtent>& pages, ByteRange chunk,
                            RowBits bits, int64_t hole_bytes, bool has_dictionary) {
  ChunkPages picked{.told_apart = true, .lacks_dictionary = has_dictionary};
  SelectedPages selected(pages, bits);
  // The range begins at the chunk's start, because a dictionary page precedes the data.
  ByteRange range{chunk.offset, pages[0].offset - chunk.offset};
  if (has_dictionary) range = {pages[0].offset, 0};
  const auto add_rows = [&](size_t first, size_t end) {
    for (size_t page = first; page < end; ++page) {
      picked.page_rows.push_back(selected.RowOf(page + 1) - selected.RowOf(page));
    }
  };
  const auto omit = [&](size_t first, size_t end) {
    picked.omitted.push_back({.row = selected.RowOf(first),
                              .rows = selected.RowOf(end) - selected.RowOf(first),
                              .page = static_cast<int64_t>(first),
                              .pages = static_cast<int64_t>(end - first)});
  };
  size_t next = 0;  // the page after those that were picked or left out
  for (size_t i = selected.From(0); i < pages.size(); i = selected.From(i + 1)) {
    const int64_t hole = pages[i].offset - (range.offset + range.bytes);
    if (i > next && range.bytes > 0 && hole <= hole_bytes) {
      add_rows(next, i);
    } else if (i > next) {
      omit(next, i);
      if (range.bytes > 0) picked.ranges.push_back(range);
      range = {pages[i].offset, 0};
    }
    range.bytes = pages[i].offset + pages[i].bytes - range.offset;
    add_rows(i, i + 1);
    next = i + 1;
  }
  if (next < pages.size()) omit(next, pages.size());
  if (range.bytes > 0) picked.ranges.push_back(range);
  if (!picked.omitted.empty() || has_dictionary) return picked;
  ChunkPages whole = WholeChunk(chunk);
  whole.told_apart = true;
  return whole;
}

// Finds the pages of a column chunk: among those that are kept, in the file's offset
// index, or where pages are kept, by their headers. Returns no pages if they can't be
// told apart.
Result<PageTables::Table> TableOf(const FetchContext& context, int32_t file,
                                  int32_t row_group, int32_t leaf, ByteRange chunk,
                                  const File* indexes) {
  const PageTables::Key key{file, row_group, leaf};
  if (context.tables != nullptr) {
    if (auto table = context.tables->Find(key)) return table;
  }
  std::shared_ptr<File> opened;
  if (indexes == nullptr) {
    ARROW_ASSIGN_OR_RAISE(opened, context.files->Open(file));
    indexes = opened.get();
  }
  const FileSpec& spec = context.files->spec(file);
  auto found = std::make_shared<PageExtents>();
  ARROW_ASSIGN_OR_RAISE(*found, ReadPageExtents(spec, *indexes, row_group, leaf));
  const bool walked =
      found->pages.empty() && context.tables != nullptr && indexes->AtHand(chunk);
  if (walked) {
    ARROW_ASSIGN_OR_RAISE(*found, WalkPages(spec, *indexes, row_group, leaf, chunk));
  }
  if (opened != nullptr && found->read_bytes > 0) {
    context.counters->read_requests += 1;
    context.counters->read_bytes += found->read_bytes;
  }
  if (!InOrder(found->pages, chunk, spec.RowsOf(row_group))) found->pages.clear();
  // A chunk whose headers were not at hand is walked another time.
  const bool whole = !found->pages.empty() || walked;
  if (context.tables != nullptr && whole) context.tables->Keep(key, found);
  return found;
}

}  // namespace

ChunkPages PickPages(const std::vector<PageExtent>& pages, ByteRange chunk, RowBits bits,
                     int64_t hole_bytes, bool has_dictionary) {
  if (bits.all() || !InOrder(pages, chunk, bits.rows)) return WholeChunk(chunk);
  return PickPagesInOrder(pages, chunk, bits, hole_bytes, has_dictionary);
}

bool SelectsPages(const FetchContext& context, ByteRange chunk, RowBits bits) {
  return !bits.all() && chunk.bytes > context.page_hole_bytes;
}

Result<ChunkPages> SelectPages(const FetchContext& context, int32_t file,
                               int32_t row_group, int32_t leaf, ByteRange chunk,
                               RowBits bits, const File* indexes, bool has_dictionary) {
  if (!SelectsPages(context, chunk, bits)) return WholeChunk(chunk);
  ARROW_ASSIGN_OR_RAISE(const PageTables::Table table,
                        TableOf(context, file, row_group, leaf, chunk, indexes));
  if (table->pages.empty()) return WholeChunk(chunk);
  return PickPagesInOrder(table->pages, chunk, bits, context.page_hole_bytes,
                          has_dictionary);
}

}  // namespace fastload
