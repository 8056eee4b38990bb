#include "fastload/fetch/page_selection.h"

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

}  // namespace

ChunkPages PickPages(const std::vector<PageExtent>& pages, ByteRange chunk, RowBits bits,
                     int64_t hole_bytes) {
  if (bits.all() || !InOrder(pages, chunk, bits.rows)) return WholeChunk(chunk);
  ChunkPages picked;
  // The range begins at the chunk's start, because a dictionary page precedes the data.
  ByteRange range{chunk.offset, pages[0].offset - chunk.offset};
  OmittedPages omitted;
  const auto row_of = [&](size_t page) {
    return page < pages.size() ? pages[page].row : bits.rows;
  };
  for (size_t i = 0; i < pages.size(); ++i) {
    const int64_t rows = row_of(i + 1) - pages[i].row;
    if (!AnyStays(bits, pages[i].row, rows)) {
      if (omitted.pages++ == 0) {
        omitted.row = pages[i].row;
        omitted.page = static_cast<int64_t>(i);
      }
      omitted.rows += rows;
      continue;
    }
    const int64_t end = range.offset + range.bytes;
    if (omitted.pages > 0 && pages[i].offset - end <= hole_bytes) {
      for (auto page = static_cast<size_t>(omitted.page); page < i; ++page) {
        picked.page_rows.push_back(row_of(page + 1) - pages[page].row);
      }
      range.bytes = pages[i].offset - range.offset;
    } else if (omitted.pages > 0) {
      picked.omitted.push_back(omitted);
      if (range.bytes > 0) picked.ranges.push_back(range);
      range = {pages[i].offset, 0};
    }
    omitted = {};
    range.bytes = pages[i].offset + pages[i].bytes - range.offset;
    picked.page_rows.push_back(rows);
  }
  if (omitted.pages > 0) picked.omitted.push_back(omitted);
  if (range.bytes > 0) picked.ranges.push_back(range);
  return picked.omitted.empty() ? WholeChunk(chunk) : picked;
}

bool SelectsPages(const FetchContext& context, ByteRange chunk, RowBits bits) {
  return !bits.all() && chunk.bytes > context.page_hole_bytes;
}

Result<ChunkPages> SelectPages(const FetchContext& context, int32_t file,
                               int32_t row_group, int32_t leaf, ByteRange chunk,
                               RowBits bits, const File* indexes) {
  if (!SelectsPages(context, chunk, bits)) return WholeChunk(chunk);
  std::shared_ptr<File> opened;
  if (indexes == nullptr) {
    ARROW_ASSIGN_OR_RAISE(opened, context.files->Open(file));
    indexes = opened.get();
  }
  ARROW_ASSIGN_OR_RAISE(
      const PageExtents extents,
      ReadPageExtents(context.files->spec(file), *indexes, row_group, leaf));
  if (extents.pages.empty()) return WholeChunk(chunk);
  if (opened != nullptr) {
    context.counters->read_requests += 1;
    context.counters->read_bytes += extents.read_bytes;
  }
  return PickPages(extents.pages, chunk, bits, context.page_hole_bytes);
}

}  // namespace fastload
