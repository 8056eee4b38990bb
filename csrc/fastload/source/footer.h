// The footer of one Parquet file: row groups, leaf columns and their Arrow types.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/type_fwd.h"
#include "fastload/base/status.h"
#include "fastload/source/footer_parts.h"
#include "fastload/source/footer_schema.h"
#include "fastload/source/leaf.h"
#include "fastload/source/packed_footer.h"
#include "parquet/metadata.h"

namespace fastload {

// The footer's sizes and counts of one leaf column, by row group index.
struct LeafChunks {
  std::vector<int64_t> compressed_bytes;
  std::vector<int64_t> uncompressed_bytes;  // pages with their headers
  // Number of values as the pages count values: nulls included, and in a column of lists
  // one value for each list without elements.
  std::vector<int64_t> num_values;
  std::vector<int64_t> value_bytes;  // bytes of all byte-array values; -1: unknown
  std::vector<int64_t> null_count;   // -1: unknown
};

LeafTotals TotalsOf(const LeafChunks& chunks);

// The number of data pages of a column chunk in one encoding.
struct PageCount {
  std::string encoding;  // name of the encoding in the format
  int64_t pages = 0;
};

// The footer of a file. Immutable once made, so any thread may read the footer.
class Footer {
 public:
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

  // Packs the footer into few bytes; `tail` is the bytes from which the footer was made.
  // Totals of columns that can't be summed are left unknown, and are computed when
  // needed.
  Result<std::string> Pack(std::string_view tail) const;

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

  // Reads what the footer says about leaf `leaf` (an index into leaves()). A chunk
  // outside the file is an ErrorKind::kCorruptFile. Only the requested leaf is checked,
  // so that damage in other leaves does no harm.
  Result<LeafChunks> ReadLeafChunks(int32_t leaf) const;

  // Reads what the footer says about several leaves. For a leaf without `statistics`,
  // value_bytes and null_count stay unknown, which is quicker.
  Result<std::vector<LeafChunks>> ReadChunks(const std::vector<int32_t>& leaves,
                                             const std::vector<bool>& statistics) const;

  // Returns the counts of data pages of one leaf column by row group index, encodings in
  // no order. A chunk whose writer counted no pages has no counts.
  Result<std::vector<std::vector<PageCount>>> ReadPageCounts(int32_t leaf) const;

  // Returns the totals by leaf, and reads only the beginning of a packed footer. Returns
  // no totals for a footer that is not packed.
  Result<std::vector<LeafTotals>> PackedTotals() const;

  bool packed() const { return metadata_ == nullptr; }

  // Returns the parsed metadata; parses a packed footer anew. Errors name the file.
  Result<std::shared_ptr<parquet::FileMetaData>> Metadata() const;

  // Returns the parts of a packed footer, unpacked anew, or null if the footer can't be
  // cut. Errors name the file.
  Result<std::shared_ptr<const FooterParts>> Parts() const;

  // Returns the metadata of one row group of the packed footer that has these parts,
  // without key-value metadata; null if the row group can't be parsed by itself.
  Result<std::shared_ptr<parquet::FileMetaData>> OneRowGroup(const FooterParts& parts,
                                                             int32_t row_group) const;

  // Returns the footer as the end of a file, as Make() accepts it.
  Result<std::string> Serialize() const;

  // Returns the bytes that Pack() made; only for a packed footer.
  Result<std::string> PackedBytes() const { return packed_.Bytes(); }

 private:
  Footer() = default;

  // Returns the bytes of a packed footer, with what stands behind them in the file.
  Result<std::string> Unpacked() const;
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
  std::shared_ptr<parquet::FileMetaData> metadata_;  // null: packed_ holds the metadata
  PackedFooter packed_;
};

}  // namespace fastload
