#include "fastload/source/page_index.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "fastload/source/arrow_versions.h"
#include "parquet/column_reader.h"
#include "parquet/metadata.h"
#include "parquet/page_index.h"
#include "parquet/properties.h"

namespace fastload {
namespace {

// Returns the range of an index, or no bytes if the file has no index or the index is not
// inside the file.
ByteRange RangeOf(const FileSpec& spec, const ByteRange& location) {
  if (location.bytes <= 0 || location.offset < 0 ||
      location.offset > spec.bytes - location.bytes) {
    return {};
  }
  return location;
}

// Reads the bytes of an index; empty if the file has no index.
Result<std::vector<uint8_t>> ReadIndex(const FileSpec& spec, const File& file,
                                       const ByteRange& location) {
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

// Returns true if all parts of the index have an entry for each page, the pages follow
// one another in the `rows` rows, and the parts agree on the nulls of each page.
bool IsSound(const PageBounds& bounds, int64_t rows, bool nullable) {
  const size_t pages = bounds.first_rows.size();
  const auto& counts = bounds.null_counts;
  if (!std::ranges::is_sorted(bounds.first_rows) || bounds.first_rows.front() != 0 ||
      bounds.first_rows.back() > rows || bounds.null_pages.size() != pages ||
      bounds.minima.size() != pages || bounds.maxima.size() != pages ||
      (!counts.empty() && counts.size() != pages)) {
    return false;
  }
  for (size_t page = 0; page < pages; ++page) {
    const int64_t end = page + 1 < pages ? bounds.first_rows[page + 1] : rows;
    const int64_t in_page = end - bounds.first_rows[page];
    const bool null_page = bounds.null_pages[page];
    const bool bounded = !bounds.minima[page].empty() || !bounds.maxima[page].empty();
    if (null_page && (bounded || (!nullable && in_page > 0))) return false;
    if (counts.empty()) continue;
    const int64_t nulls = counts[page];
    if (nulls < 0 || nulls > (nullable ? in_page : 0)) return false;
    if (in_page > 0 && null_page != (nulls == in_page)) return false;
  }
  return true;
}

// A stream of a range that reads what is looked at, and passes over the rest.
class WalkedBytes final : public arrow::io::InputStream {
 public:
  WalkedBytes(const File* file, ByteRange range) : file_(file), range_(range) {}

  // Returns where libparquet last looked for a header.
  int64_t looked_at() const { return range_.offset + looked_at_; }
  int64_t read_bytes() const { return read_bytes_; }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }

  arrow::Result<std::string_view> Peek(int64_t bytes) override {
    looked_at_ = position_;
    return Look(bytes);
  }

  // The next read is of a page that is passed over: its bytes are not looked at.
  void PassOver() { passes_over_ = true; }

  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const std::string_view read, Look(bytes));
    std::copy(read.begin(), read.end(), static_cast<char*>(out));
    position_ += static_cast<int64_t>(read.size());
    return static_cast<int64_t>(read.size());
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    if (std::exchange(passes_over_, false)) {
      position_ += std::clamp<int64_t>(bytes, 0, range_.bytes - position_);
      return std::make_shared<arrow::Buffer>(nullptr, 0);
    }
    ARROW_ASSIGN_OR_RAISE(const std::string_view read, Look(bytes));
    position_ += static_cast<int64_t>(read.size());
    return arrow::Buffer::FromString(std::string(read));
  }

 private:
  arrow::Result<std::string_view> Look(int64_t bytes) {
    // As much as is read at once: neighbouring small pages cost one call.
    constexpr int64_t kAhead = 64 << 10;
    bytes = std::clamp<int64_t>(bytes, 0, range_.bytes - position_);
    if (position_ < start_ || position_ + bytes > start_ + std::ssize(bytes_)) {
      const int64_t wanted = std::max(bytes, std::min(kAhead, range_.bytes - position_));
      bytes_.resize(static_cast<size_t>(wanted));
      start_ = position_;
      ARROW_RETURN_NOT_OK(file_->ReadAt(range_.offset + start_, wanted,
                                        reinterpret_cast<uint8_t*>(bytes_.data())));
      read_bytes_ += wanted;
    }
    return std::string_view(bytes_.data() + (position_ - start_),
                            static_cast<size_t>(bytes));
  }

  const File* const file_;
  const ByteRange range_;
  int64_t position_ = 0;
  int64_t looked_at_ = 0;
  bool passes_over_ = false;
  std::vector<char> bytes_;  // from start_ on
  int64_t start_ = 0;
  int64_t read_bytes_ = 0;
};

}  // namespace

Result<std::vector<ByteRange>> IndexRanges(const FileSpec& spec, int32_t row_group,
                                           int32_t leaf, bool bounds) {
  std::vector<ByteRange> ranges;
  ARROW_ASSIGN_OR_RAISE(const FooterChunk chunk, spec.Chunk(row_group, leaf));
  std::vector<ByteRange> locations = {chunk.offset_index};
  if (bounds && IsFlat(spec, leaf)) locations.push_back(chunk.column_index);
  for (const ByteRange& location : locations) {
    const ByteRange range = RangeOf(spec, location);
    if (range.bytes > 0) ranges.push_back(range);
  }
  return ranges;
}

Result<PageExtents> ReadPageExtents(const FileSpec& spec, const File& file,
                                    int32_t row_group, int32_t leaf) {
  PageExtents extents;
  ARROW_ASSIGN_OR_RAISE(const FooterChunk chunk, spec.Chunk(row_group, leaf));
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const auto bytes, ReadIndex(spec, file, chunk.offset_index));
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

Result<PageExtents> WalkPages(const FileSpec& spec, const File& file, int32_t row_group,
                              int32_t leaf, ByteRange chunk) {
  PageExtents extents;
  const bool flat = IsFlat(spec, leaf);
  const auto bytes = std::make_shared<WalkedBytes>(&file, chunk);
  bool known = true;
  int64_t rows = 0;
  ARROW_ASSIGN_OR_RAISE(const FooterChunk stored, spec.Chunk(row_group, leaf));
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    parquet::ReaderProperties properties;
    LimitThrift(chunk.bytes, &properties);
    // Pages are passed over, and a dictionary stays compressed.
    auto pages = OpenPages(bytes, stored.values, parquet::Compression::UNCOMPRESSED,
                           properties, *spec.Column(leaf), /*always_compressed=*/false);
    const auto close = [&](int64_t end) {
      if (extents.pages.empty()) return;
      PageExtent& page = extents.pages.back();
      page.bytes = end - page.offset;
    };
    pages->set_data_page_filter([&](const parquet::DataPageStats& stats) {
      close(bytes->looked_at());
      extents.pages.push_back({.offset = bytes->looked_at(), .row = rows});
      if (flat) {
        rows += stats.num_values;
      } else if (stats.num_rows.has_value() && *stats.num_rows > 0 &&
                 *stats.num_rows < stats.num_values) {
        // Arrow before version 13 wrote the number of values instead of rows.
        rows += *stats.num_rows;
      } else {
        known = false;
      }
      bytes->PassOver();
      return true;
    });
    while (pages->NextPage() != nullptr) {
    }
    close(chunk.offset + chunk.bytes);
    return Status::OK();
  }));
  extents.read_bytes = bytes->read_bytes();
  if (!known || rows != spec.RowsOf(row_group)) extents.pages.clear();
  return extents;
}

Result<PageBounds> ReadPageBounds(const FileSpec& spec, const File& file,
                                  int32_t row_group, int32_t leaf) {
  PageBounds bounds;
  if (!IsFlat(spec, leaf)) return bounds;
  ARROW_ASSIGN_OR_RAISE(const PageExtents extents,
                        ReadPageExtents(spec, file, row_group, leaf));
  if (extents.pages.empty()) return bounds;
  ARROW_ASSIGN_OR_RAISE(const FooterChunk chunk, spec.Chunk(row_group, leaf));
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const auto bytes, ReadIndex(spec, file, chunk.column_index));
    if (bytes.empty()) return Status::OK();
    for (const PageExtent& page : extents.pages) bounds.first_rows.push_back(page.row);
    try {
      const auto index = parquet::ColumnIndex::Make(*spec.Column(leaf), bytes.data(),
                                                    static_cast<uint32_t>(bytes.size()),
                                                    PropertiesOf(bytes));
      bounds.null_pages = index->null_pages();
      if (index->has_null_counts()) bounds.null_counts = index->null_counts();
      bounds.minima = index->encoded_min_values();
      bounds.maxima = index->encoded_max_values();
    } catch (const parquet::ParquetException&) {
      // No index, or one with bounds that are no values: it is not needed to read rows.
      bounds = {};
      return Status::OK();
    }
    const bool nullable = spec.Column(leaf)->max_definition_level() > 0;
    if (!IsSound(bounds, spec.RowsOf(row_group), nullable)) bounds = {};
    return Status::OK();
  }));
  return bounds;
}

}  // namespace fastload
