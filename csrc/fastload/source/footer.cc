#include "fastload/source/footer.h"

#include <algorithm>
#include <utility>

#include "arrow/type.h"
#include "fastload/source/arrow_versions.h"
#include "parquet/size_statistics.h"
#include "parquet/statistics.h"

namespace fastload {

namespace {

constexpr std::string_view kEncryptedMagic = "PARE";
constexpr int64_t kMagicBytes = 4;
// No codec but Brotli expands more: the smallest block of zstd has 4 bytes and makes 128
// KiB.
constexpr int64_t kMostExpansion = (128 << 10) / 4;
// A writer may count the bytes of pages in another way.
constexpr int64_t kSlackBytes = 1 << 20;

// Reads the length as little-endian, whatever the machine's byte order.
int64_t FooterLength(std::string_view trailer) {
  int64_t length = 0;
  for (int i = 3; i >= 0; --i) {
    length = (length << 8) | static_cast<uint8_t>(trailer[static_cast<size_t>(i)]);
  }
  return length;
}

Location LocationIn(const std::string& file, int32_t row_group = -1,
                    std::string column = "") {
  return Location{file, row_group, std::move(column), -1};
}

std::string_view Trailer(std::string_view tail) {
  return tail.substr(tail.size() - static_cast<size_t>(Footer::kTrailerBytes));
}

std::string_view ThriftOf(std::string_view tail, int64_t needed) {
  return tail.substr(tail.size() - static_cast<size_t>(needed),
                     static_cast<size_t>(needed - Footer::kTrailerBytes));
}

Status CheckChunk(const parquet::ColumnChunkMetaData& chunk, int64_t file_bytes) {
  if (!chunk.file_path().empty()) {
    return MakeError(
        ErrorKind::kUnsupported,
        "Expected column chunks in the file itself, got one in another file, `" +
            chunk.file_path() + "`");
  }
  int64_t start = chunk.data_page_offset();
  // Some writers leave an offset of 0 where a chunk has no dictionary page.
  if (chunk.has_dictionary_page() && chunk.dictionary_page_offset() > 0) {
    start = std::min(start, chunk.dictionary_page_offset());
  }
  const int64_t length = chunk.total_compressed_size();
  if (start < 0 || length < 0 || start > file_bytes || length > file_bytes - start) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a column chunk inside the " + std::to_string(file_bytes) +
                         " bytes of the file, got " + std::to_string(length) +
                         " bytes from offset " + std::to_string(start));
  }
  return Status::OK();
}

// Checks the sizes that budgets of memory are made of, so that a damaged size is named
// with its place before much memory is asked for.
Status CheckSizes(const parquet::ColumnChunkMetaData& chunk, bool repeated,
                  int64_t rows) {
  const int64_t values = chunk.num_values();
  if (values < 0 || (!repeated && values > rows)) {
    return MakeError(ErrorKind::kCorruptFile, "Expected a column chunk of " +
                                                  std::to_string(rows) +
                                                  " values, a value for each row, got " +
                                                  std::to_string(values) + " values");
  }
  const int64_t compressed = chunk.total_compressed_size();
  int64_t most = compressed;
  if (chunk.compression() == parquet::Compression::BROTLI ||
      __builtin_mul_overflow(compressed, kMostExpansion, &most)) {
    most = INT64_MAX - kSlackBytes;
  }
  const int64_t bytes = chunk.total_uncompressed_size();
  if (bytes >= 0 && bytes - kSlackBytes <= most) return Status::OK();
  return MakeError(ErrorKind::kCorruptFile, "Expected a size of pages that " +
                                                std::to_string(compressed) +
                                                " compressed bytes can have, got " +
                                                std::to_string(bytes) + " bytes");
}

// Checks that the column is not encrypted. Under a plain footer each column may be
// encrypted with a key of its own (libparquet then throws when asked for the chunk's
// metadata) or with the footer's key.
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

Status Append(const parquet::ColumnChunkMetaData& chunk, const arrow::DataType& type,
              bool required, bool with_statistics, LeafChunks* chunks) {
  chunks->compressed_bytes.push_back(chunk.total_compressed_size());
  chunks->uncompressed_bytes.push_back(chunk.total_uncompressed_size());
  chunks->num_values.push_back(chunk.num_values());
  if (!with_statistics) {
    chunks->value_bytes.push_back(-1);
    chunks->null_count.push_back(-1);
    return Status::OK();
  }
  const auto sizes = chunk.size_statistics();
  const bool sized =
      sizes != nullptr && sizes->unencoded_byte_array_data_bytes.has_value();
  const int64_t value_bytes = sized ? *sizes->unencoded_byte_array_data_bytes : -1;
  // Each value lies in the pages, maybe as a word of the dictionary that others share.
  const __int128 most =
      static_cast<__int128>(chunk.total_uncompressed_size()) * chunk.num_values();
  if (sized && (value_bytes < 0 || value_bytes > most)) {
    return MakeError(
        ErrorKind::kCorruptFile,
        "Expected a size of values that " + std::to_string(chunk.num_values()) +
            " values in " + std::to_string(chunk.total_uncompressed_size()) +
            " bytes of pages can have, got " + std::to_string(value_bytes) + " bytes");
  }
  chunks->value_bytes.push_back(value_bytes);
  const auto statistics = chunk.encoded_statistics();
  if (type.id() == arrow::Type::NA) {
    // Columns of type null have no usable statistics, and need none.
    chunks->null_count.push_back(chunk.num_values());
  } else if (required) {
    chunks->null_count.push_back(0);
  } else if (statistics != nullptr && statistics->has_null_count) {
    chunks->null_count.push_back(statistics->null_count);
  } else {
    chunks->null_count.push_back(-1);
  }
  return Status::OK();
}

// Counts data pages by encoding, over all kinds of pages.
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

// Runs `read`, and rewords an error of Arrow as an error of the core. Arrow's status code
// says whether the bytes are corrupt or only unsupported.
template <typename Fn>
Status ReadPart(std::string_view part, Fn&& read) {
  Status status = CatchParquet(std::forward<Fn>(read));
  if (status.ok() || status.IsOutOfMemory()) return status;
  if (KindOf(status) == ErrorKind::kInternal) return status;
  const ErrorKind kind =
      status.IsNotImplemented() ? ErrorKind::kUnsupported : ErrorKind::kCorruptFile;
  return MakeError(kind, "Expected a readable Parquet " + std::string(part) +
                             ", got: " + status.message());
}

}  // namespace

LeafTotals TotalsOf(const LeafChunks& chunks) {
  LeafTotals totals{.values = 0};
  for (size_t g = 0; g < chunks.num_values.size(); ++g) {
    const int64_t known = chunks.value_bytes[g];
    totals.values += chunks.num_values[g];
    totals.value_bytes += known >= 0 ? known : chunks.uncompressed_bytes[g];
    if (totals.null_row_group < 0 && chunks.null_count[g] > 0) {
      totals.null_row_group = static_cast<int64_t>(g);
    } else if (totals.null_row_group < 0 && chunks.null_count[g] < 0) {
      totals.null_row_group = LeafTotals::kUnknown;
    }
  }
  return totals;
}

Result<int64_t> Footer::TailBytes(std::string_view tail, int64_t file_bytes,
                                  const std::string& file) {
  const Location location = LocationIn(file);
  if (file_bytes < kMagicBytes + kTrailerBytes) {
    return At(MakeError(ErrorKind::kCorruptFile,
                        "Not a Parquet file: expected at least 12 bytes, got " +
                            std::to_string(file_bytes)),
              location);
  }
  if (static_cast<int64_t>(tail.size()) < kTrailerBytes) {
    return Status::Invalid("Expected the 8 bytes of a trailer, got ", tail.size());
  }
  const std::string_view trailer = Trailer(tail);
  const std::string_view magic = trailer.substr(kMagicBytes);
  if (magic == kEncryptedMagic) {
    return At(
        MakeError(ErrorKind::kUnsupported,
                  "Expected a plain footer, got an encrypted one; fastload reads no "
                  "encrypted Parquet"),
        location);
  }
  if (magic != kParquetMagic) {
    return At(MakeError(ErrorKind::kCorruptFile,
                        "Not a Parquet file: expected it to end in PAR1, got other bytes "
                        "(it may be truncated)"),
              location);
  }
  const int64_t length = FooterLength(trailer);
  if (length > file_bytes - kMagicBytes - kTrailerBytes) {
    return At(MakeError(ErrorKind::kCorruptFile, "Expected a footer inside the " +
                                                     std::to_string(file_bytes) +
                                                     " bytes of the file, got one of " +
                                                     std::to_string(length) + " bytes"),
              location);
  }
  return length + kTrailerBytes;
}

Result<std::shared_ptr<Footer>> Footer::Make(std::string_view tail, int64_t file_bytes,
                                             std::string file, FooterSchemas* schemas) {
  ARROW_ASSIGN_OR_RAISE(const int64_t needed, TailBytes(tail, file_bytes, file));
  if (static_cast<int64_t>(tail.size()) < needed) {
    return Status::Invalid("Expected the last ", needed, " bytes of the file, got ",
                           tail.size());
  }
  const std::string_view thrift = ThriftOf(tail, needed);
  std::shared_ptr<Footer> footer(new Footer());
  footer->file_bytes_ = file_bytes;
  footer->file_ = std::move(file);
  ARROW_RETURN_NOT_OK(At(footer->Parse(thrift, schemas), LocationIn(footer->file_)));
  return footer;
}

Result<std::shared_ptr<Footer>> Footer::OfPacked(
    KeptBytes packed, int64_t file_bytes, std::string file,
    std::vector<int64_t> row_group_rows, std::shared_ptr<const FooterSchema> schema) {
  std::shared_ptr<Footer> footer(new Footer());
  footer->file_bytes_ = file_bytes;
  footer->file_ = std::move(file);
  footer->schema_ = std::move(schema);
  footer->packed_ = PackedFooter(std::move(packed));
  footer->row_group_rows_ = std::move(row_group_rows);
  for (size_t g = 0; g < footer->row_group_rows_.size(); ++g) {
    const int64_t rows = footer->row_group_rows_[g];
    ARROW_RETURN_NOT_OK(footer->AddRows(rows, static_cast<int32_t>(g)));
  }
  return footer;
}

Result<std::string> Footer::Pack(std::string_view tail) const {
  ARROW_ASSIGN_OR_RAISE(const int64_t needed, TailBytes(tail, file_bytes_, file_));
  if (static_cast<int64_t>(tail.size()) < needed) {
    return Status::Invalid("Expected the last ", needed, " bytes of the file, got ",
                           tail.size());
  }
  std::vector<LeafTotals> totals;
  for (size_t leaf = 0; leaf < leaves().size(); ++leaf) {
    const auto chunks = ReadLeafChunks(static_cast<int32_t>(leaf));
    totals.push_back(chunks.ok() ? TotalsOf(*chunks) : LeafTotals());
  }
  return PackFooter(totals, tail.substr(tail.size() - static_cast<size_t>(needed)));
}

Result<std::vector<LeafTotals>> Footer::PackedTotals() const {
  if (!packed()) return std::vector<LeafTotals>();
  auto totals = packed_.Totals();
  if (!totals.ok()) return At(totals.status(), LocationIn(file_));
  if (totals->size() == leaves().size()) return totals;
  return At(MakeError(ErrorKind::kStorage,
                      "Expected a kept footer of " + std::to_string(leaves().size()) +
                          " columns, got one of " + std::to_string(totals->size())),
            LocationIn(file_));
}

Result<std::string> Footer::Unpacked() const {
  ARROW_ASSIGN_OR_RAISE(std::string tail, packed_.Tail());
  ARROW_ASSIGN_OR_RAISE(const int64_t needed, TailBytes(tail, file_bytes_, file_));
  if (needed == static_cast<int64_t>(tail.size())) return tail;
  return MakeError(ErrorKind::kStorage,
                   "Expected a kept footer, got bytes of another length");
}

Result<std::shared_ptr<parquet::FileMetaData>> Footer::Metadata() const {
  if (!packed()) return metadata_;
  std::shared_ptr<parquet::FileMetaData> metadata;
  const Status status = [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const std::string tail, Unpacked());
    ARROW_RETURN_NOT_OK(ReadPart("footer", [&]() -> Status {
      metadata = ReadFileMetaData(ThriftOf(tail, static_cast<int64_t>(tail.size())));
      return Status::OK();
    }));
    const auto row_groups = static_cast<size_t>(metadata->num_row_groups());
    if (row_groups == row_group_rows_.size() &&
        metadata->num_columns() == schema_->parquet().num_columns()) {
      return Status::OK();
    }
    return MakeError(
        ErrorKind::kStorage,
        "Expected a kept footer with the rows and columns of its entry, got another "
        "file's footer");
  }();
  if (!status.ok()) return At(status, LocationIn(file_));
  return metadata;
}

Result<std::shared_ptr<const FooterParts>> Footer::Parts() const {
  const auto tail = Unpacked();
  if (!tail.ok()) return At(tail.status(), LocationIn(file_));
  return FooterParts::Of(ThriftOf(*tail, static_cast<int64_t>(tail->size())));
}

Result<std::shared_ptr<parquet::FileMetaData>> Footer::OneRowGroup(
    const FooterParts& parts, int32_t row_group) const {
  const auto g = static_cast<size_t>(row_group);
  if (parts.row_groups() != row_group_rows_.size() || g >= parts.row_groups()) {
    return nullptr;
  }
  std::shared_ptr<parquet::FileMetaData> metadata;
  const Status status = CatchParquet([&]() -> Status {
    metadata = ReadFileMetaData(parts.Only(g));
    if (metadata->num_row_groups() != 1 ||
        metadata->num_columns() != schema_->parquet().num_columns() ||
        metadata->RowGroup(0)->num_rows() != row_group_rows_[g]) {
      metadata = nullptr;
    }
    return Status::OK();
  });
  if (status.IsOutOfMemory()) return status;
  return status.ok() ? metadata : nullptr;
}

Status Footer::Parse(std::string_view thrift, FooterSchemas* schemas) {
  ARROW_RETURN_NOT_OK(ReadPart("footer", [&]() -> Status {
    metadata_ = ReadFileMetaData(thrift);
    return Status::OK();
  }));
  ARROW_RETURN_NOT_OK(ReadPart("schema", [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(schema_, FooterSchema::Make(metadata_));
    if (schemas == nullptr) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(schema_, schemas->Share(schema_));
    return Status::OK();
  }));
  return ReadRowGroups();
}

Status Footer::ReadRowGroups() {
  const int row_groups = metadata_->num_row_groups();
  row_group_rows_.reserve(static_cast<size_t>(row_groups));
  for (int g = 0; g < row_groups; ++g) {
    std::unique_ptr<parquet::RowGroupMetaData> row_group;
    ARROW_RETURN_NOT_OK(At(ReadPart("footer",
                                    [&]() -> Status {
                                      row_group = metadata_->RowGroup(g);
                                      return Status::OK();
                                    }),
                           LocationIn(file_, g)));
    ARROW_RETURN_NOT_OK(AddRows(row_group->num_rows(), g));
    row_group_rows_.push_back(row_group->num_rows());
  }
  return Status::OK();
}

Status Footer::AddRows(int64_t rows, int32_t row_group) {
  const Location location = LocationIn(file_, row_group);
  if (rows < 0) {
    return At(MakeError(ErrorKind::kCorruptFile,
                        "Expected a row count of 0 or more, got " + std::to_string(rows)),
              location);
  }
  if (__builtin_add_overflow(num_rows_, rows, &num_rows_)) {
    return At(MakeError(ErrorKind::kCorruptFile,
                        "Expected row counts whose sum fits int64, got more"),
              location);
  }
  return Status::OK();
}

Result<LeafChunks> Footer::ReadLeafChunks(int32_t leaf) const {
  ARROW_ASSIGN_OR_RAISE(std::vector<LeafChunks> chunks, ReadChunks({leaf}, {true}));
  return std::move(chunks[0]);
}

Result<std::vector<LeafChunks>> Footer::ReadChunks(
    const std::vector<int32_t>& leaves, const std::vector<bool>& statistics) const {
  ARROW_ASSIGN_OR_RAISE(const auto metadata, Metadata());
  for (const int32_t leaf : leaves) {
    if (leaf < 0 || leaf >= metadata->num_columns()) {
      return Status::IndexError("Expected one of ", metadata->num_columns(),
                                " leaves, got ", leaf);
    }
  }
  std::vector<LeafChunks> chunks(leaves.size());
  for (int g = 0; g < metadata->num_row_groups(); ++g) {
    std::unique_ptr<parquet::RowGroupMetaData> row_group;
    Status status = ReadPart("footer", [&]() -> Status {
      row_group = metadata->RowGroup(g);
      return Status::OK();
    });
    if (!status.ok()) return At(status, LocationIn(file_, g));
    for (size_t i = 0; i < leaves.size(); ++i) {
      status = ReadChunk(*metadata, *row_group, leaves[i], statistics[i], &chunks[i]);
      if (status.ok()) continue;
      const Leaf& leaf = this->leaves()[static_cast<size_t>(leaves[i])];
      return At(status, LocationIn(file_, g, leaf.DottedName()));
    }
  }
  return chunks;
}

Status Footer::ReadChunk(const parquet::FileMetaData& metadata,
                         const parquet::RowGroupMetaData& row_group, int32_t leaf,
                         bool statistics, LeafChunks* chunks) const {
  if (metadata.is_encryption_algorithm_set()) {
    ARROW_RETURN_NOT_OK(CheckPlain(row_group, leaf));
  }
  std::unique_ptr<parquet::ColumnChunkMetaData> chunk;
  ARROW_RETURN_NOT_OK(ReadPart("footer", [&]() -> Status {
    chunk = row_group.ColumnChunk(leaf);
    return Status::OK();
  }));
  ARROW_RETURN_NOT_OK(CheckChunk(*chunk, file_bytes_));
  const parquet::ColumnDescriptor& column = *metadata.schema()->Column(leaf);
  const bool repeated = column.max_repetition_level() > 0;
  ARROW_RETURN_NOT_OK(ReadPart(
      "footer", [&] { return CheckSizes(*chunk, repeated, row_group.num_rows()); }));
  return ReadPart("footer", [&] {
    const bool required = column.max_definition_level() == 0;
    return Append(*chunk, *leaf_schema()->field(leaf)->type(), required, statistics,
                  chunks);
  });
}

Result<std::vector<std::vector<PageCount>>> Footer::ReadPageCounts(int32_t leaf) const {
  ARROW_ASSIGN_OR_RAISE(const auto metadata, Metadata());
  if (leaf < 0 || leaf >= metadata->num_columns()) {
    return Status::IndexError("Expected one of ", metadata->num_columns(),
                              " leaves, got ", leaf);
  }
  std::vector<std::vector<PageCount>> counts;
  for (int g = 0; g < metadata->num_row_groups(); ++g) {
    const Status status = [&]() -> Status {
      std::unique_ptr<parquet::RowGroupMetaData> row_group;
      ARROW_RETURN_NOT_OK(ReadPart("footer", [&]() -> Status {
        row_group = metadata->RowGroup(g);
        return Status::OK();
      }));
      if (metadata->is_encryption_algorithm_set()) {
        ARROW_RETURN_NOT_OK(CheckPlain(*row_group, leaf));
      }
      return ReadPart("footer", [&]() -> Status {
        counts.push_back(CountPages(*row_group->ColumnChunk(leaf)));
        return Status::OK();
      });
    }();
    if (status.ok()) continue;
    const std::string name = leaves()[static_cast<size_t>(leaf)].DottedName();
    return At(status, LocationIn(file_, g, name));
  }
  return counts;
}

Result<std::string> Footer::Serialize() const {
  ARROW_ASSIGN_OR_RAISE(const auto metadata, Metadata());
  return SerializeTail(*metadata);
}

}  // namespace fastload
