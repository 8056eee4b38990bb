#include "fastload/source/chunk_metadata.h"

#include <algorithm>
#include <memory>

#include "parquet/size_statistics.h"
#include "parquet/statistics.h"

namespace fastload {
namespace {

// No codec but Brotli expands more: the smallest block of zstd has 4 bytes and makes 128
// KiB.
constexpr int64_t kMostExpansion = (128 << 10) / 4;
// A writer may count the bytes of pages in another way.
constexpr int64_t kSlackBytes = 1 << 20;

Status CheckSizes(const FooterChunk& chunk, int64_t file_bytes, bool repeated,
                  int64_t rows) {
  const int64_t start = chunk.offset;
  const int64_t length = chunk.compressed_bytes;
  if (start < 0 || length < 0 || start > file_bytes || length > file_bytes - start) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a column chunk inside the " + std::to_string(file_bytes) +
                         " bytes of the file, got " + std::to_string(length) +
                         " bytes from offset " + std::to_string(start));
  }
  if (chunk.values < 0 || (!repeated && chunk.values > rows)) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a column chunk of " + std::to_string(rows) +
                         " values, a value for each row, got " +
                         std::to_string(chunk.values) + " values");
  }
  int64_t most = length;
  if (chunk.codec == parquet::Compression::BROTLI ||
      __builtin_mul_overflow(length, kMostExpansion, &most)) {
    most = INT64_MAX - kSlackBytes;
  }
  const int64_t bytes = chunk.uncompressed_bytes;
  if (bytes < 0 || bytes - kSlackBytes > most) {
    return MakeError(ErrorKind::kCorruptFile, "Expected a size of pages that " +
                                                  std::to_string(length) +
                                                  " compressed bytes can have, got " +
                                                  std::to_string(bytes) + " bytes");
  }
  // Each value lies in the pages, maybe as a word of the dictionary that others share.
  const __int128 most_values = static_cast<__int128>(bytes) * chunk.values;
  if (chunk.value_bytes < -1 || chunk.value_bytes > most_values) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a size of values that " + std::to_string(chunk.values) +
                         " values in " + std::to_string(bytes) +
                         " bytes of pages can have, got " +
                         std::to_string(chunk.value_bytes) + " bytes");
  }
  return Status::OK();
}

// Returns true if the writer's statistics of a column are right, whatever they say.
bool BelievesStatistics(const parquet::ApplicationVersion& writer,
                        const parquet::ColumnDescriptor& column) {
  return column.sort_order() != parquet::SortOrder::UNKNOWN &&
         writer.HasCorrectStatistics(column.physical_type(), parquet::EncodedStatistics(),
                                     column.sort_order());
}

}  // namespace

// The footers of a dataset mostly have one writer, and to parse its name takes longer
// than to read a small footer.
const parquet::ApplicationVersion& WriterNamed(std::string_view name) {
  thread_local std::string last;
  thread_local parquet::ApplicationVersion version{""};
  if (last != name) {
    version = parquet::ApplicationVersion(std::string(name));
    last = name;
  }
  return version;
}

Status CheckChunk(const parquet::ApplicationVersion& writer,
                  const parquet::ColumnDescriptor& column, bool null_type,
                  int64_t file_bytes, int64_t rows, FooterChunk* chunk) {
  const bool repeated = column.max_repetition_level() > 0;
  ARROW_RETURN_NOT_OK(CheckSizes(*chunk, file_bytes, repeated, rows));
  if (null_type) {
    // Columns of type null have no usable statistics, and need none.
    chunk->nulls = chunk->values;
  } else if (column.max_definition_level() == 0) {
    chunk->nulls = 0;
  } else if (chunk->nulls >= 0 && !BelievesStatistics(writer, column)) {
    chunk->nulls = -1;
  }
  using Version = parquet::ApplicationVersion;
  chunk->marks_no_compression =
      writer.VersionLt(Version::PARQUET_CPP_10353_FIXED_VERSION());
  chunk->leaves_out_header = writer.VersionLt(Version::PARQUET_816_FIXED_VERSION());
  return Status::OK();
}

Result<FooterChunk> ChunkOf(const parquet::RowGroupMetaData& row_group, int32_t leaf) {
  FooterChunk found;
  const auto chunk = row_group.ColumnChunk(leaf);
  if (!chunk->file_path().empty()) {
    return MakeError(
        ErrorKind::kUnsupported,
        "Expected column chunks in the file itself, got one in another file, `" +
            chunk->file_path() + "`");
  }
  found.offset = chunk->data_page_offset();
  // Some writers leave an offset of 0 where a chunk has no dictionary page.
  if (chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0) {
    found.offset = std::min(found.offset, chunk->dictionary_page_offset());
  }
  found.compressed_bytes = chunk->total_compressed_size();
  found.uncompressed_bytes = chunk->total_uncompressed_size();
  found.values = chunk->num_values();
  found.codec = chunk->compression();
  const auto statistics = chunk->encoded_statistics();
  if (statistics != nullptr && statistics->has_null_count) {
    found.nulls = statistics->null_count;
  }
  const auto sizes = chunk->size_statistics();
  if (sizes != nullptr && sizes->unencoded_byte_array_data_bytes.has_value()) {
    found.value_bytes = *sizes->unencoded_byte_array_data_bytes;
  }
  if (const auto index = chunk->GetOffsetIndexLocation()) {
    found.offset_index = {index->offset, index->length};
  }
  if (const auto index = chunk->GetColumnIndexLocation()) {
    found.column_index = {index->offset, index->length};
  }
  found.bloom_filter = {chunk->bloom_filter_offset().value_or(0),
                        chunk->bloom_filter_length().value_or(-1)};
  return found;
}

Status CheckPlain(const parquet::RowGroupMetaData& row_group, int32_t leaf) {
  // An index out of range is damage, which is found elsewhere.
  bool plain = leaf >= row_group.num_columns();
  try {
    plain = plain || row_group.ColumnChunk(leaf)->crypto_metadata() == nullptr;
  } catch (const parquet::ParquetException&) {
    plain = false;
  }
  if (plain) return Status::OK();
  return MakeError(ErrorKind::kUnsupported,
                   "Expected a plain column, got an encrypted one; fastload reads no "
                   "encrypted Parquet (leave it out with columns=[...])");
}

std::vector<PageCount> CountPages(const parquet::ColumnChunkMetaData& chunk) {
  std::vector<PageCount> counts;
  for (const parquet::PageEncodingStats& stats : chunk.encoding_stats()) {
    if (stats.page_type != parquet::PageType::DATA_PAGE &&
        stats.page_type != parquet::PageType::DATA_PAGE_V2) {
      continue;
    }
    const std::string encoding = parquet::EncodingToString(stats.encoding);
    auto found = std::find_if(counts.begin(), counts.end(), [&](const PageCount& count) {
      return count.encoding == encoding;
    });
    if (found == counts.end()) found = counts.insert(found, PageCount{encoding});
    found->pages += stats.count;
  }
  return counts;
}

}  // namespace fastload
