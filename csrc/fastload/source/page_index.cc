#include "fastload/source/page_index.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "fastload/source/arrow_versions.h"
#include "parquet/metadata.h"
#include "parquet/page_index.h"
#include "parquet/properties.h"

namespace fastload {
namespace {

using IndexLocation = std::optional<parquet::IndexLocation>;

// Returns the range of an index, or no bytes if the file has no index or the index is not
// inside the file.
ByteRange RangeOf(const FileSpec& spec, const IndexLocation& location) {
  if (!location || location->length <= 0 || location->offset < 0 ||
      location->offset > spec.bytes - location->length) {
    return {};
  }
  return {location->offset, location->length};
}

// Reads the bytes of an index; empty if the file has no index.
Result<std::vector<uint8_t>> ReadIndex(const FileSpec& spec, const File& file,
                                       const IndexLocation& location) {
  const ByteRange range = RangeOf(spec, location);
  std::vector<uint8_t> bytes(static_cast<size_t>(range.bytes));
  if (bytes.empty()) return bytes;
  ARROW_RETURN_NOT_OK(file.ReadAt(range.offset, range.bytes, bytes.data()));
  return bytes;
}

parquet::ReaderProperties PropertiesOf(const std::vector<uint8_t>& index) {
  parquet::ReaderProperties properties;
  LimitThrift(static_cast<int64_t>(index.size()), &properties);
  return properties;
}

// Returns true for a flat column. Page bounds of a column of lists are bounds of
// elements.
bool IsFlat(const FileSpec& spec, int32_t leaf) {
  return spec.Column(leaf)->max_repetition_level() == 0;
}

// Returns true if all parts of the index have an entry for each page, and the pages
// follow one another in the `rows` rows.
bool IsWhole(const PageBounds& bounds, int64_t rows) {
  const size_t pages = bounds.first_rows.size();
  const bool ordered = std::ranges::is_sorted(bounds.first_rows) &&
                       bounds.first_rows.front() == 0 && bounds.first_rows.back() <= rows;
  return ordered && bounds.null_pages.size() == pages && bounds.minima.size() == pages &&
         bounds.maxima.size() == pages &&
         (bounds.null_counts.empty() || bounds.null_counts.size() == pages);
}

}  // namespace

Result<std::vector<ByteRange>> IndexRanges(const FileSpec& spec, int32_t row_group,
                                           int32_t leaf, bool bounds) {
  std::vector<ByteRange> ranges;
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const ParsedRowGroup parsed, spec.RowGroup(row_group));
    const auto chunk = parsed.group->ColumnChunk(leaf);
    std::vector<IndexLocation> locations = {chunk->GetOffsetIndexLocation()};
    if (bounds && IsFlat(spec, leaf)) {
      locations.push_back(chunk->GetColumnIndexLocation());
    }
    for (const IndexLocation& location : locations) {
      const ByteRange range = RangeOf(spec, location);
      if (range.bytes > 0) ranges.push_back(range);
    }
    return Status::OK();
  }));
  return ranges;
}

Result<PageExtents> ReadPageExtents(const FileSpec& spec, const File& file,
                                    int32_t row_group, int32_t leaf) {
  PageExtents extents;
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const ParsedRowGroup parsed, spec.RowGroup(row_group));
    const auto chunk = parsed.group->ColumnChunk(leaf);
    ARROW_ASSIGN_OR_RAISE(const auto bytes,
                          ReadIndex(spec, file, chunk->GetOffsetIndexLocation()));
    if (bytes.empty()) return Status::OK();
    extents.read_bytes = static_cast<int64_t>(bytes.size());
    const auto index = parquet::OffsetIndex::Make(
        bytes.data(), static_cast<uint32_t>(bytes.size()), PropertiesOf(bytes));
    for (const parquet::PageLocation& page : index->page_locations()) {
      extents.pages.push_back(
          {page.offset, page.compressed_page_size, page.first_row_index});
    }
    return Status::OK();
  }));
  return extents;
}

Result<PageBounds> ReadPageBounds(const FileSpec& spec, const File& file,
                                  int32_t row_group, int32_t leaf) {
  PageBounds bounds;
  if (!IsFlat(spec, leaf)) return bounds;
  ARROW_ASSIGN_OR_RAISE(const PageExtents extents,
                        ReadPageExtents(spec, file, row_group, leaf));
  if (extents.pages.empty()) return bounds;
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const ParsedRowGroup parsed, spec.RowGroup(row_group));
    const auto chunk = parsed.group->ColumnChunk(leaf);
    ARROW_ASSIGN_OR_RAISE(const auto bytes,
                          ReadIndex(spec, file, chunk->GetColumnIndexLocation()));
    if (bytes.empty()) return Status::OK();
    const auto index = parquet::ColumnIndex::Make(*spec.Column(leaf), bytes.data(),
                                                  static_cast<uint32_t>(bytes.size()),
                                                  PropertiesOf(bytes));
    for (const PageExtent& page : extents.pages) bounds.first_rows.push_back(page.row);
    bounds.null_pages = index->null_pages();
    if (index->has_null_counts()) bounds.null_counts = index->null_counts();
    bounds.minima = index->encoded_min_values();
    bounds.maxima = index->encoded_max_values();
    if (!IsWhole(bounds, spec.RowsOf(row_group))) bounds = {};
    return Status::OK();
  }));
  return bounds;
}

}  // namespace fastload
