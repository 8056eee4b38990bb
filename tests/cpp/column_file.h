// Parquet files of one flat column in memory, written with the low-level writer, so that
// a test can choose every encoding, page version and codec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrow/io/memory.h"
#include "fastload/decode/chunk_reader.h"
#include "parquet/column_writer.h"
#include "parquet/file_reader.h"
#include "parquet/file_writer.h"
#include "parquet/properties.h"
#include "parquet/schema.h"
#include "parquet/types.h"

namespace fastload::testing {

// The options with which the file is written.
struct ColumnLayout {
  parquet::Encoding::type encoding = parquet::Encoding::PLAIN;
  bool dictionary = false;
  // Beyond this size the writer falls back to `encoding`.
  int64_t dictionary_bytes = 1 << 20;
  int64_t page_bytes = 1 << 20;
  bool v2_pages = false;
  parquet::Compression::type codec = parquet::Compression::UNCOMPRESSED;
};

inline std::string Describe(const ColumnLayout& layout) {
  return parquet::EncodingToString(layout.encoding) +
         (layout.dictionary ? " dictionary " : " ") +
         std::to_string(layout.dictionary_bytes) + " page " +
         std::to_string(layout.page_bytes) + (layout.v2_pages ? " v2" : " v1") +
         " codec " + std::to_string(layout.codec);
}

// Writes a column of `valid.size()` rows; `values` holds the values that are not null.
template <typename ParquetType>
struct ColumnData {
  using Physical = typename ParquetType::c_type;
  // A std::vector<bool> has no addressable bytes.
  using Value = std::conditional_t<std::is_same_v<Physical, bool>, uint8_t, Physical>;
  std::vector<Value> values;
  std::vector<uint8_t> valid;
};

inline parquet::schema::NodePtr LeafNode(
    parquet::Type::type physical,
    const std::shared_ptr<const parquet::LogicalType>& logical =
        parquet::LogicalType::None(),
    int length = -1,
    parquet::Repetition::type repetition = parquet::Repetition::OPTIONAL) {
  return parquet::schema::PrimitiveNode::Make("column", repetition, logical, physical,
                                              length);
}

// Writes a file. With `nested` the leaf is in an optional struct, and a null is a null
// struct.
template <typename ParquetType>
std::shared_ptr<arrow::Buffer> WriteColumn(const parquet::schema::NodePtr& leaf,
                                           const ColumnData<ParquetType>& data,
                                           const ColumnLayout& layout,
                                           bool nested = false) {
  parquet::schema::NodePtr top = leaf;
  if (nested) {
    top =
        parquet::schema::GroupNode::Make("outer", parquet::Repetition::OPTIONAL, {leaf});
  }
  auto root = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("root", parquet::Repetition::REQUIRED, {top}));
  parquet::WriterProperties::Builder builder;
  builder.encoding(layout.encoding)
      ->compression(layout.codec)
      ->data_pagesize(layout.page_bytes)
      ->write_batch_size(64)
      ->dictionary_pagesize_limit(layout.dictionary_bytes)
      ->data_page_version(layout.v2_pages ? parquet::ParquetDataPageVersion::V2
                                          : parquet::ParquetDataPageVersion::V1);
  if (layout.dictionary) {
    builder.enable_dictionary();
  } else {
    builder.disable_dictionary();
  }
  auto sink = *arrow::io::BufferOutputStream::Create();
  auto file = parquet::ParquetFileWriter::Open(sink, root, builder.build());
  auto* writer = static_cast<parquet::TypedColumnWriter<ParquetType>*>(
      file->AppendRowGroup()->NextColumn());
  const int16_t max_level = writer->descr()->max_definition_level();
  std::vector<int16_t> levels(data.valid.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    const bool present = max_level == 0 || data.valid[i] != 0;
    levels[i] = present ? max_level : static_cast<int16_t>(i % max_level);
  }
  writer->WriteBatch(
      static_cast<int64_t>(levels.size()), levels.data(), nullptr,
      reinterpret_cast<const typename ParquetType::c_type*>(data.values.data()));
  file->Close();
  return *sink->Finish();
}

class OpenedColumn {
 public:
  explicit OpenedColumn(const std::shared_ptr<arrow::Buffer>& bytes)
      : file_(parquet::ParquetFileReader::Open(
            std::make_shared<arrow::io::BufferReader>(bytes))) {}

  ChunkInput Chunk() {
    ChunkInput input;
    group_ = file_->RowGroup(0);
    input.pages = group_->GetColumnPageReader(0);
    input.descr = file_->metadata()->schema()->Column(0);
    input.rows = group_->metadata()->num_rows();
    return input;
  }

  parquet::ParquetFileReader& file() { return *file_; }

 private:
  std::unique_ptr<parquet::ParquetFileReader> file_;
  std::shared_ptr<parquet::RowGroupReader> group_;
};

}  // namespace fastload::testing
