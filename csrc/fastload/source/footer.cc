#include "fastload/source/footer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "arrow/type.h"
#include "fastload/source/arrow_versions.h"

namespace fastload {

namespace {

constexpr std::string_view kEncryptedMagic = "PARE";
constexpr int64_t kMagicBytes = 4;
// libparquet takes no longer footer, for Thrift counts bytes by 32-bit numbers.
constexpr int64_t kMostFooterBytes = std::numeric_limits<int32_t>::max();

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

Footer::~Footer() {
  delete facts_.load();
  const KnownBounds* known = bounds_.load();
  while (known != nullptr) delete std::exchange(known, known->next);
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
  if (length > kMostFooterBytes) {
    return At(
        MakeError(ErrorKind::kUnsupported,
                  "Expected a footer below 2 GiB, got one of " + std::to_string(length) +
                      " bytes; write the rows to several files, or in larger row groups"),
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
  std::shared_ptr<Footer> footer(new Footer());
  footer->file_bytes_ = file_bytes;
  footer->file_ = std::move(file);
  ARROW_RETURN_NOT_OK(
      At(footer->Parse(ThriftOf(tail, needed), schemas), LocationIn(footer->file_)));
  footer->tail_ = tail.substr(tail.size() - static_cast<size_t>(needed));
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

Result<std::string> Footer::Pack() const {
  if (packed()) return packed_.Bytes();
  return PackFooter(totals_, *facts_bytes_, tail_);
}

Result<std::vector<LeafTotals>> Footer::Totals() const {
  if (!packed()) return totals_;
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
  std::shared_ptr<parquet::FileMetaData> metadata;
  const Status status = [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const std::string tail, Tail());
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

Status Footer::Parse(std::string_view thrift, FooterSchemas* schemas) {
  auto read = ReadFooter(thrift);
  if (read.has_value()) {
    if (schemas != nullptr) schema_ = schemas->Find(read->schema);
    if (schema_ == nullptr) ARROW_RETURN_NOT_OK(ParseSchema(read->schema, schemas));
  } else {
    ARROW_RETURN_NOT_OK(ParseSchema(thrift, schemas));
  }
  const size_t columns = leaves().size();
  if (read.has_value() && !read->rows.empty() && read->chunks.size() != columns) {
    read.reset();
  }
  Chunked chunks(columns);
  if (read.has_value()) {
    row_group_rows_ = std::move(read->rows);
    if (!row_group_rows_.empty()) chunks = std::move(read->chunks);
    const parquet::ApplicationVersion& writer = WriterNamed(read->writer);
    for (size_t leaf = 0; leaf < columns; ++leaf) {
      const auto number = static_cast<int32_t>(leaf);
      const parquet::ColumnDescriptor& column = *schema_->parquet().Column(number);
      const bool null_type = IsNullType(number);
      bool sound = true;
      for (size_t g = 0; sound && g < chunks[leaf].size(); ++g) {
        sound = CheckChunk(writer, column, null_type, file_bytes_, row_group_rows_[g],
                           &chunks[leaf][g])
                    .ok();
      }
      if (!sound) chunks[leaf].clear();
    }
  }
  const auto lacks = [&](const std::vector<FooterChunk>& of_leaf) {
    return of_leaf.size() != row_group_rows_.size();
  };
  plain_ = read.has_value() && std::ranges::none_of(chunks, lacks);
  std::shared_ptr<parquet::FileMetaData> metadata;
  if (!plain_) {
    const Status parsed = ReadPart("footer", [&]() -> Status {
      metadata = ReadFileMetaData(thrift);
      return Status::OK();
    });
    if (!read.has_value()) {
      ARROW_RETURN_NOT_OK(parsed);
      ARROW_RETURN_NOT_OK(ParseRows(*metadata));
    }
  }
  for (size_t g = 0; g < row_group_rows_.size(); ++g) {
    ARROW_RETURN_NOT_OK(AddRows(row_group_rows_[g], static_cast<int32_t>(g)));
  }
  for (size_t leaf = 0; metadata != nullptr && leaf < columns; ++leaf) {
    if (!lacks(chunks[leaf])) continue;
    // What is wrong is told when the leaf is asked for.
    chunks[leaf] = ParseLeaf(*metadata, static_cast<int32_t>(leaf)).ValueOr({});
  }
  facts_bytes_ = std::make_shared<const std::string>(LeafFacts::Pack(chunks));
  totals_.resize(columns);
  for (size_t leaf = 0; leaf < columns; ++leaf) {
    if (!lacks(chunks[leaf])) totals_[leaf] = TotalsOf(chunks[leaf]);
  }
  return Status::OK();
}

Status Footer::ParseSchema(std::string_view thrift, FooterSchemas* schemas) {
  std::shared_ptr<parquet::FileMetaData> metadata;
  ARROW_RETURN_NOT_OK(ReadPart("footer", [&]() -> Status {
    metadata = ReadFileMetaData(thrift);
    return Status::OK();
  }));
  return ReadPart("schema", [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(schema_, FooterSchema::Make(metadata));
    if (schemas != nullptr) {
      // Row groups, if any, are no part of the schema.
      const auto bytes = metadata->num_row_groups() == 0 ? thrift : std::string_view();
      ARROW_ASSIGN_OR_RAISE(schema_, schemas->Share(schema_, bytes));
    } else if (metadata->num_row_groups() > 0) {
      ARROW_ASSIGN_OR_RAISE(schema_, schema_->Slim());
    }
    return Status::OK();
  });
}

Status Footer::ParseRows(const parquet::FileMetaData& metadata) {
  for (int g = 0; g < metadata.num_row_groups(); ++g) {
    const Status status = ReadPart("footer", [&]() -> Status {
      row_group_rows_.push_back(metadata.RowGroup(g)->num_rows());
      return Status::OK();
    });
    if (!status.ok()) return At(status, LocationIn(file_, g));
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

Status Footer::CheckPlace(int32_t row_group, int32_t leaf) const {
  if (leaf < 0 || static_cast<size_t>(leaf) >= leaves().size()) {
    return Status::IndexError("Expected one of ", leaves().size(), " leaves, got ", leaf);
  }
  if (row_group < 0 || static_cast<size_t>(row_group) >= row_group_rows_.size()) {
    return Status::IndexError("Expected one of ", row_group_rows_.size(),
                              " row groups, got ", row_group);
  }
  return Status::OK();
}

Result<FooterChunk> Footer::Chunk(int32_t row_group, int32_t leaf) const {
  ARROW_RETURN_NOT_OK(CheckPlace(row_group, leaf));
  const auto g = static_cast<size_t>(row_group);
  ARROW_ASSIGN_OR_RAISE(const LeafFacts* const facts, Facts());
  if (const auto chunk = facts->Chunk(static_cast<size_t>(leaf), g)) return *chunk;
  ARROW_ASSIGN_OR_RAISE(const auto chunks, ParseChunks(leaf));
  return chunks[g];
}

Result<std::vector<FooterChunk>> Footer::Chunks(int32_t leaf) const {
  std::vector<FooterChunk> chunks;
  if (row_group_rows_.empty()) return chunks;
  ARROW_RETURN_NOT_OK(CheckPlace(0, leaf));
  ARROW_ASSIGN_OR_RAISE(const LeafFacts* const facts, Facts());
  for (size_t g = 0; g < row_group_rows_.size(); ++g) {
    const auto chunk = facts->Chunk(static_cast<size_t>(leaf), g);
    if (!chunk.has_value()) return ParseChunks(leaf);
    chunks.push_back(*chunk);
  }
  return chunks;
}

Result<const LeafFacts*> Footer::Facts() const {
  const LeafFacts* known = facts_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  BytesView view;
  if (packed()) {
    const auto kept = packed_.Facts();
    if (!kept.ok()) return At(kept.status(), LocationIn(file_));
    view = *kept;
  } else {
    view = {*facts_bytes_, facts_bytes_};
  }
  auto facts = std::make_unique<const LeafFacts>(
      view.bytes, leaves().size(), row_group_rows_.size(), std::move(view.owner));
  if (facts_.compare_exchange_strong(known, facts.get(), std::memory_order_acq_rel)) {
    return facts.release();
  }
  return known;
}

Result<std::vector<FooterChunk>> Footer::ParseChunks(int32_t leaf) const {
  ARROW_ASSIGN_OR_RAISE(const auto metadata, Metadata());
  return ParseLeaf(*metadata, leaf);
}

Result<std::vector<FooterChunk>> Footer::ParseLeaf(const parquet::FileMetaData& metadata,
                                                   int32_t leaf) const {
  std::vector<FooterChunk> chunks;
  for (int g = 0; g < metadata.num_row_groups(); ++g) {
    std::unique_ptr<parquet::RowGroupMetaData> row_group;
    const Status status = ReadPart("footer", [&]() -> Status {
      row_group = metadata.RowGroup(g);
      return Status::OK();
    });
    if (!status.ok()) return At(status, LocationIn(file_, g));
    const auto chunk = ParseChunk(metadata, *row_group, leaf);
    if (!chunk.ok()) {
      const std::string name = leaves()[static_cast<size_t>(leaf)].DottedName();
      return At(chunk.status(), LocationIn(file_, g, name));
    }
    chunks.push_back(*chunk);
  }
  return chunks;
}

Result<FooterChunk> Footer::ParseChunk(const parquet::FileMetaData& metadata,
                                       const parquet::RowGroupMetaData& row_group,
                                       int32_t leaf) const {
  if (metadata.is_encryption_algorithm_set()) {
    ARROW_RETURN_NOT_OK(CheckPlain(row_group, leaf));
  }
  const parquet::ColumnDescriptor& column = *schema_->parquet().Column(leaf);
  FooterChunk found;
  ARROW_RETURN_NOT_OK(ReadPart("footer", [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(found, ChunkOf(row_group, leaf));
    return CheckChunk(metadata.writer_version(), column, IsNullType(leaf), file_bytes_,
                      row_group.num_rows(), &found);
  }));
  return found;
}

Result<ChunkBounds> Footer::Bounds(int32_t row_group, int32_t leaf,
                                   const std::vector<int32_t>& also) const {
  ARROW_RETURN_NOT_OK(CheckPlace(row_group, leaf));
  const auto g = static_cast<size_t>(row_group);
  if (const LeafBounds* known = FindBounds(leaf)) return known->Chunk(g);
  std::vector<int32_t> leaves = {leaf};
  for (const int32_t other : also) {
    if (FindBounds(other) == nullptr) leaves.push_back(other);
  }
  std::ranges::sort(leaves);
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  auto read = ReadBounds(leaves);
  if (!read.ok() && leaves.size() > 1) {
    // The others are told of when they are asked for.
    leaves = {leaf};
    read = ReadBounds(leaves);
  }
  ARROW_RETURN_NOT_OK(read.status());
  for (size_t i = 0; i < leaves.size(); ++i) {
    auto* const added = new KnownBounds{leaves[i], std::move((*read)[i]),
                                        bounds_.load(std::memory_order_relaxed)};
    while (!bounds_.compare_exchange_weak(added->next, added, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
  return FindBounds(leaf)->Chunk(g);
}

const LeafBounds* Footer::FindBounds(int32_t leaf) const {
  const KnownBounds* known = bounds_.load(std::memory_order_acquire);
  for (; known != nullptr; known = known->next) {
    if (known->leaf == leaf) return &known->bounds;
  }
  return nullptr;
}

Result<std::vector<LeafBounds>> Footer::ReadBounds(
    const std::vector<int32_t>& leaves) const {
  const auto tail = Tail();
  if (!tail.ok()) return At(tail.status(), LocationIn(file_));
  const std::string_view thrift = ThriftOf(*tail, static_cast<int64_t>(tail->size()));
  const auto read = [&](const parquet::FileMetaData& metadata, int32_t of) {
    LeafBounds bounds;
    for (size_t g = 0; g < row_group_rows_.size(); ++g) {
      const auto row_group = metadata.RowGroup(static_cast<int>(g));
      bounds.Add(*row_group->ColumnChunk(of));
    }
    return bounds;
  };
  std::vector<LeafBounds> found;
  if (const auto footers = FootersOfColumns(thrift, this->leaves().size(), leaves)) {
    const Status status = CatchParquet([&]() -> Status {
      for (size_t i = 0; i < leaves.size(); ++i) {
        const auto metadata = ReadFileMetaData((*footers)[i]);
        const auto& expected = *schema_->parquet().Column(leaves[i])->logical_type();
        if (!metadata->schema()->Column(0)->logical_type()->Equals(expected)) {
          return Status::Invalid("another column");
        }
        found.push_back(read(*metadata, 0));
      }
      return Status::OK();
    });
    if (status.ok()) return found;
    if (status.IsOutOfMemory()) return status;
    found.clear();
  }
  ARROW_ASSIGN_OR_RAISE(const auto metadata, Metadata());
  return CatchParquet([&]() -> Result<std::vector<LeafBounds>> {
    for (const int32_t leaf : leaves) found.push_back(read(*metadata, leaf));
    return std::move(found);
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

Result<std::string> Footer::Tail() const { return packed() ? Unpacked() : tail_; }

}  // namespace fastload
