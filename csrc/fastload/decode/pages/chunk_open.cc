#include "fastload/decode/pages/chunk_open.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "fastload/decode/pages/page_memory.h"
#include "fastload/decode/pages/snappy_pages.h"
#include "fastload/source/arrow_versions.h"
#include "parquet/metadata.h"
#include "parquet/properties.h"

namespace fastload {
namespace {

// Wraps the stream for libparquet, which then releases the wrapper: the stream's own
// references change in this library alone, where ThreadSanitizer sees them.
std::shared_ptr<arrow::io::InputStream> Lend(
    std::shared_ptr<arrow::io::InputStream> stream) {
  arrow::io::InputStream* const lent = stream.get();
  return {lent, [stream = std::move(stream)](arrow::io::InputStream*) mutable {
            stream.reset();
          }};
}

}  // namespace

Result<ChunkFacts> FactsOf(const FileSpec& file, int32_t row_group, int32_t leaf) {
  ARROW_ASSIGN_OR_RAISE(const FooterChunk chunk, file.Chunk(row_group, leaf));
  ByteRange range{chunk.offset, chunk.compressed_bytes};
  // Facts that were kept on disk may be damaged.
  if (range.offset < 0 || range.bytes < 0 || range.offset > file.bytes ||
      range.bytes > file.bytes - range.offset) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a column chunk inside the file's " +
                         std::to_string(file.bytes) + " bytes, got " +
                         std::to_string(range.bytes) + " bytes at offset " +
                         std::to_string(range.offset));
  }
  // Writers before this fix left the dictionary page's header out of the size
  // (PARQUET-816). Arrow allows 100 bytes for the header.
  if (chunk.leaves_out_header) {
    range.bytes += std::min<int64_t>(100, file.bytes - (range.offset + range.bytes));
  }
  const int64_t most = MostExpanded(chunk.codec, chunk.compressed_bytes);
  return ChunkFacts{.range = range,
                    .rows = file.RowsOf(row_group),
                    .levels = chunk.values,
                    .compressed = chunk.compressed_bytes,
                    .page_bytes = std::min(chunk.uncompressed_bytes, most),
                    .most_bytes = MostPageBytes(chunk.codec, chunk.compressed_bytes,
                                                chunk.uncompressed_bytes),
                    .codec = chunk.codec,
                    .always_compressed = chunk.marks_no_compression};
}

Result<ByteRange> ChunkRange(const FileSpec& file, int32_t row_group, int32_t leaf) {
  ARROW_ASSIGN_OR_RAISE(const ChunkFacts facts, FactsOf(file, row_group, leaf));
  return facts.range;
}

Result<ChunkInput> OpenChunk(const FileSpec& file, int32_t row_group, int32_t leaf,
                             std::shared_ptr<arrow::io::InputStream> stream,
                             arrow::MemoryPool* pool, OpenOptions options) {
  ARROW_ASSIGN_OR_RAISE(const ChunkFacts facts, FactsOf(file, row_group, leaf));
  return OpenChunk(file, facts, leaf, std::move(stream), pool, options);
}

Result<ChunkInput> OpenChunk(const FileSpec& file, const ChunkFacts& chunk, int32_t leaf,
                             std::shared_ptr<arrow::io::InputStream> stream,
                             arrow::MemoryPool* pool, OpenOptions options) {
  ChunkInput input;
  input.pool = pool;
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    input.descr = file.Column(leaf);
    input.rows = chunk.rows;
    input.levels = chunk.levels;
    input.compressed = chunk.codec != parquet::Compression::UNCOMPRESSED;
    input.page_bytes = chunk.page_bytes;
    const bool snappy =
        chunk.codec == parquet::Compression::SNAPPY && !options.arrow_decompresses;
    const auto codec = snappy ? parquet::Compression::UNCOMPRESSED : chunk.codec;
    const auto open = [&](arrow::MemoryPool* memory) {
      parquet::ReaderProperties properties(memory);
      properties.set_page_checksum_verification(options.verify_crc);
      LimitThrift(chunk.compressed, &properties);
      return OpenPages(Lend(std::move(stream)), chunk.levels, codec, properties,
                       *input.descr, chunk.always_compressed);
    };
    if (codec != parquet::Compression::UNCOMPRESSED) {
      input.pages = LimitPages(pool, chunk.most_bytes, open);
    } else {
      input.pages = open(pool);
      if (snappy) {
        input.pages =
            DecompressSnappyPages(std::move(input.pages), pool, chunk.most_bytes);
      }
    }
    return Status::OK();
  }));
  return input;
}

std::vector<int64_t> RowGroupStarts(const FileSpec& file) {
  std::vector<int64_t> starts;
  int64_t row = 0;
  for (const int64_t rows : file.footer->row_group_rows()) {
    starts.push_back(row);
    row += rows;
  }
  return starts;
}

}  // namespace fastload
