// The footer of one Parquet file: row groups, leaf columns and their Arrow types.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/type_fwd.h"
#include "fastload/base/status.h"
#include "fastload/source/footer_schema.h"
#include "fastload/source/leaf.h"
#include "fastload/source/packed_footer.h"
#include "parquet/metadata.h"

namespace fastload {

// What the footer says of one leaf column in each row group, by row group index.
struct LeafChunks {
  std::vector<int64_t> compressed_bytes;
  std::vector<int64_t> uncompressed_bytes;  // pages, headers included
  // Values as the pages count them: nulls are among them, and in a column of lists one
  // for each list without elements.
  std::vector<int64_t> num_values;
  std::vector<int64_t> value_bytes;  // bytes of all byte-array values; -1 = unknown
  std::vector<int64_t> null_count;   // -1 = unknown
};

LeafTotals TotalsOf(const LeafChunks& chunks);

// How many data pages of a column chunk are in an encoding.
struct PageCount {
  std::string encoding;  // as the format names it
  int64_t pages = 0;
};

// Immutable once made, so it may be read from any thread.
class Footer {
 public:
  // Bytes of the trailer: the length of the footer, then the magic.
  static constexpr int64_t kTrailerBytes = 8;

  // How many bytes at the end of a file of `file_bytes` bytes hold its footer, trailer
  // included. `tail` is the end of the file, at least its trailer; `file` is its name in
  // errors.
  static Result<int64_t> TailBytes(std::string_view tail, int64_t file_bytes,
                                   const std::string& file);

  // Parses the footer out of `tail`, the last TailBytes() bytes of the file or more.
  // `schemas`, if any, has the schema that it then shares.
  static Result<std::shared_ptr<Footer>> Make(std::string_view tail, int64_t file_bytes,
                                              std::string file,
                                              FooterSchemas* schemas = nullptr);

  // What Pack() made of such a footer; parsed when that is needed. Takes
  // `row_group_rows` at their word.
  static Result<std::shared_ptr<Footer>> OfPacked(
      KeptBytes packed, int64_t file_bytes, std::string file,
      std::vector<int64_t> row_group_rows, std::shared_ptr<const FooterSchema> schema);

  // In few bytes; `tail` is what it was made of. What can't be told of a column is found
  // out when it is asked for.
  Result<std::string> Pack(std::string_view tail) const;

  // Rows of all row groups. The count in the footer itself is ignored, as Arrow does:
  // some writers leave it at 0.
  int64_t num_rows() const { return num_rows_; }
  const std::vector<int64_t>& row_group_rows() const { return row_group_rows_; }
  const std::vector<Leaf>& leaves() const { return schema_->leaves(); }
  int64_t file_bytes() const { return file_bytes_; }
  const std::string& file() const { return file_; }

  // One field for each leaf, as Leaves::schema.
  const std::shared_ptr<arrow::Schema>& leaf_schema() const { return schema_->arrow(); }

  const std::shared_ptr<const FooterSchema>& schema() const { return schema_; }

  // Whether the leaves and their Arrow types are the same, whatever the rows.
  bool SameSchema(const Footer& other) const {
    return schema_->SameLeaves(*other.schema_);
  }

  // `leaf` is an index into leaves(). A chunk that does not lie in the file is an
  // ErrorKind::kCorruptFile; asked here, so that damage elsewhere does no harm.
  Result<LeafChunks> ReadLeafChunks(int32_t leaf) const;

  // Of several leaves. Of one without `statistics` the bytes of values and the nulls are
  // left unknown, which is quicker.
  Result<std::vector<LeafChunks>> ReadChunks(const std::vector<int32_t>& leaves,
                                             const std::vector<bool>& statistics) const;

  // By row group index, what the footer says of the data pages of one leaf column,
  // encodings in no order; none of a chunk whose writer counted none.
  Result<std::vector<std::vector<PageCount>>> ReadPageCounts(int32_t leaf) const;

  // By leaf, without reading more than a packed footer begins with; none of one that is
  // not packed.
  Result<std::vector<LeafTotals>> PackedTotals() const;

  bool packed() const { return metadata_ == nullptr; }

  // Of a packed one parsed anew. Errors name the file.
  Result<std::shared_ptr<parquet::FileMetaData>> Metadata() const;

  // The footer as the end of a file, for Make().
  Result<std::string> Serialize() const;

  // What Pack() made, of a packed one.
  Result<std::string> PackedBytes() const { return packed_.Bytes(); }

 private:
  Footer() = default;

  Status Parse(std::string_view thrift, FooterSchemas* schemas);
  Status ReadRowGroups();
  Status AddRows(int64_t rows, int32_t row_group);
  Status ReadChunk(const parquet::FileMetaData& metadata,
                   const parquet::RowGroupMetaData& row_group, int32_t leaf,
                   bool statistics, LeafChunks* chunks) const;

  std::string file_;
  int64_t file_bytes_ = 0;
  int64_t num_rows_ = 0;
  std::vector<int64_t> row_group_rows_;
  std::shared_ptr<const FooterSchema> schema_;
  std::shared_ptr<parquet::FileMetaData> metadata_;  // null: packed_ has it
  PackedFooter packed_;
};

}  // namespace fastload
