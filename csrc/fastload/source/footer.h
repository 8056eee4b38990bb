// The footer of one Parquet file: row groups, leaf columns and their Arrow types.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/type.h"
#include "fastload/base/status.h"
#include "fastload/source/chunk_bounds.h"
#include "fastload/source/chunk_metadata.h"
#include "fastload/source/footer_chunk.h"
#include "fastload/source/footer_schema.h"
#include "fastload/source/leaf.h"
#include "fastload/source/leaf_facts.h"
#include "fastload/source/packed_footer.h"
#include "parquet/metadata.h"

namespace fastload {

// The footer of a file. What the footer says of column chunks is read when the footer is
// made, and found by position from then on. Immutable but for bounds, which are read when
// first asked for; any thread may read the footer, also after a fork.
class Footer {
 public:
  ~Footer();
  Footer(const Footer&) = delete;
  Footer& operator=(const Footer&) = delete;

  // Bytes of the trailer: the footer's length, then the magic.
  static constexpr int64_t kTrailerBytes = 8;

  // Returns how many bytes at the end of a file of `file_bytes` bytes hold the footer,
  // trailer included. `tail` is the end of the file, at least the trailer; errors name
  // `file`.
  static Result<int64_t> TailBytes(std::string_view tail, int64_t file_bytes,
                                   const std::string& file);

  // Parses the footer from `tail`, the last TailBytes() bytes of the file or more. If
  // `schemas` is given, the footer shares an equal schema from `schemas`.
  static Result<std::shared_ptr<Footer>> Make(std::string_view tail, int64_t file_bytes,
                                              std::string file,
                                              FooterSchemas* schemas = nullptr);

  // Makes a footer from the bytes that Pack() returned; the bytes are parsed when needed.
  // `row_group_rows` is not checked.
  static Result<std::shared_ptr<Footer>> OfPacked(
      KeptBytes packed, int64_t file_bytes, std::string file,
      std::vector<int64_t> row_group_rows, std::shared_ptr<const FooterSchema> schema);

  // Packs the footer into few bytes.
  Result<std::string> Pack() const;

  // Returns the sum of the rows of all row groups. Like Arrow, ignores the row count in
  // the footer itself, because some writers leave the count at 0.
  int64_t num_rows() const { return num_rows_; }
  const std::vector<int64_t>& row_group_rows() const { return row_group_rows_; }
  const std::vector<Leaf>& leaves() const { return schema_->leaves(); }
  int64_t file_bytes() const { return file_bytes_; }
  const std::string& file() const { return file_; }

  // Returns one field for each leaf, like Leaves::schema.
  const std::shared_ptr<arrow::Schema>& leaf_schema() const { return schema_->arrow(); }

  const std::shared_ptr<const FooterSchema>& schema() const { return schema_; }

  // Returns true if both footers have the same leaves and Arrow types.
  bool SameSchema(const Footer& other) const {
    return schema_->SameLeaves(*other.schema_);
  }

  // Returns what the footer says of a column chunk. A chunk outside the file, or of sizes
  // that no chunk has, is an ErrorKind::kCorruptFile, in whichever row group it lies.
  // Only the requested leaf is checked, so that damage in other leaves does no harm.
  Result<FooterChunk> Chunk(int32_t row_group, int32_t leaf) const;
  // Returns the chunks of a leaf by row group.
  Result<std::vector<FooterChunk>> Chunks(int32_t leaf) const;

  // Returns the chunks of a leaf as libparquet tells of them, which parses the whole
  // footer.
  Result<std::vector<FooterChunk>> ParseChunks(int32_t leaf) const;

  // Returns false if something in the footer is odd, so that libparquet had to parse it.
  bool plain() const { return plain_; }

  // Returns the bounds of a column chunk, which live as long as the footer. Bounds of
  // `also` are read with those of `leaf`.
  Result<ChunkBounds> Bounds(int32_t row_group, int32_t leaf,
                             const std::vector<int32_t>& also = {}) const;

  // Returns the counts of data pages of one leaf column by row group index, encodings in
  // no order. A chunk whose writer counted no pages has no counts.
  Result<std::vector<std::vector<PageCount>>> ReadPageCounts(int32_t leaf) const;

  // Returns the totals by leaf, and reads only the beginning of a packed footer. Totals
  // are unknown of a leaf whose chunks are not all as they should be.
  Result<std::vector<LeafTotals>> Totals() const;

  bool packed() const { return tail_.empty(); }

  // Returns the metadata, parsed anew. Errors name the file.
  Result<std::shared_ptr<parquet::FileMetaData>> Metadata() const;

  // Returns the footer as the end of a file, as Make() accepts it.
  Result<std::string> Tail() const;

  // Where the bytes of a packed footer are kept.
  const KeptBytes& kept() const { return packed_.kept(); }

 private:
  // Bounds that are known, in a list that only grows.
  struct KnownBounds {
    int32_t leaf;
    LeafBounds bounds;
    const KnownBounds* next;
  };

  using Chunked = std::vector<std::vector<FooterChunk>>;  // by leaf and row group

  Footer() = default;

  // Returns the bytes of a packed footer, with what stands behind them in the file.
  Result<std::string> Unpacked() const;
  Status Parse(std::string_view thrift, FooterSchemas* schemas);
  Status ParseSchema(std::string_view thrift, FooterSchemas* schemas);
  Status ParseRows(const parquet::FileMetaData& metadata);
  Status AddRows(int64_t rows, int32_t row_group);
  Status CheckPlace(int32_t row_group, int32_t leaf) const;

  // Returns the facts of a packed footer, too.
  Result<const LeafFacts*> Facts() const;
  Result<std::vector<FooterChunk>> ParseLeaf(const parquet::FileMetaData& metadata,
                                             int32_t leaf) const;
  Result<FooterChunk> ParseChunk(const parquet::FileMetaData& metadata,
                                 const parquet::RowGroupMetaData& row_group,
                                 int32_t leaf) const;
  bool IsNullType(int32_t leaf) const {
    return leaf_schema()->field(leaf)->type()->id() == arrow::Type::NA;
  }
  const LeafBounds* FindBounds(int32_t leaf) const;
  // Reads the bounds of `leaves`, which are sorted.
  Result<std::vector<LeafBounds>> ReadBounds(const std::vector<int32_t>& leaves) const;

  std::string file_;
  int64_t file_bytes_ = 0;
  int64_t num_rows_ = 0;
  std::vector<int64_t> row_group_rows_;
  std::shared_ptr<const FooterSchema> schema_;
  bool plain_ = true;
  std::string tail_;  // empty: packed_ holds the footer and its facts
  std::shared_ptr<const std::string> facts_bytes_;
  std::vector<LeafTotals> totals_;
  PackedFooter packed_;
  mutable std::atomic<const LeafFacts*> facts_ = nullptr;  // null: not asked for yet
  // Newest first. Threads that find nothing at the same time read the footer each.
  mutable std::atomic<const KnownBounds*> bounds_ = nullptr;
};

}  // namespace fastload
