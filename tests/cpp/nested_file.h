// Random nested arrays that Arrow writes to Parquet files in memory, and what Arrow reads
// back of one leaf, in NestedReader's form.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/memory.h"
#include "fastload/decode/chunk_reader.h"
#include "parquet/arrow/reader.h"
#include "parquet/arrow/writer.h"
#include "parquet/file_reader.h"
#include "parquet/properties.h"

namespace fastload::testing {

// One leaf of a nested column.
struct NestedCase {
  std::string name;
  std::shared_ptr<arrow::DataType> type;
  // Index of the child at each struct (a map's entries are a struct).
  std::vector<int> path;
  int32_t depth = 1;
  int64_t list_size = 0;
  bool nullable = true;
};

struct NestedLayout {
  bool v2_pages = false;
  bool dictionary = false;
  int64_t page_bytes = 1 << 20;
  parquet::Compression::type codec = parquet::Compression::UNCOMPRESSED;
};

inline std::string Describe(const NestedCase& nested, const NestedLayout& layout) {
  return nested.name + (layout.v2_pages ? " v2" : " v1") +
         (layout.dictionary ? " dictionary" : " plain") + " page " +
         std::to_string(layout.page_bytes) + " codec " + std::to_string(layout.codec);
}

struct RandomLists {
  uint64_t null_percent = 10;
  uint64_t max_length = 5;  // most elements of a list
  uint64_t kinds = 50;      // number of different values
};

// Appends a random value of the builder's type.
inline void AppendRandom(arrow::ArrayBuilder* builder, bool nullable,
                         const RandomLists& lists, std::mt19937_64* random) {
  if (nullable && (*random)() % 100 < lists.null_percent) {
    PARQUET_THROW_NOT_OK(builder->AppendNull());
    return;
  }
  const std::shared_ptr<arrow::DataType> owned = builder->type();
  const arrow::DataType& type = *owned;
  const auto kind = (*random)() % lists.kinds;
  const auto append_list = [&](auto* list) {
    PARQUET_THROW_NOT_OK(list->Append());
    const auto length = (*random)() % (lists.max_length + 1);
    for (uint64_t i = 0; i < length; ++i) {
      AppendRandom(list->value_builder(), type.field(0)->nullable(), lists, random);
    }
  };
  switch (type.id()) {
    case arrow::Type::INT32:
      PARQUET_THROW_NOT_OK(static_cast<arrow::Int32Builder*>(builder)->Append(
          static_cast<int32_t>(kind * 0x9E3779B9)));
      return;
    case arrow::Type::DOUBLE:
      PARQUET_THROW_NOT_OK(static_cast<arrow::DoubleBuilder*>(builder)->Append(
          static_cast<double>(kind) / 3));
      return;
    case arrow::Type::BOOL:
      PARQUET_THROW_NOT_OK(
          static_cast<arrow::BooleanBuilder*>(builder)->Append(kind % 2 == 0));
      return;
    case arrow::Type::STRING:
      PARQUET_THROW_NOT_OK(static_cast<arrow::StringBuilder*>(builder)->Append(
          std::string(kind % 20, static_cast<char>('a' + kind % 26))));
      return;
    case arrow::Type::LIST:
      return append_list(static_cast<arrow::ListBuilder*>(builder));
    case arrow::Type::LARGE_LIST:
      return append_list(static_cast<arrow::LargeListBuilder*>(builder));
    case arrow::Type::FIXED_SIZE_LIST: {
      auto* list = static_cast<arrow::FixedSizeListBuilder*>(builder);
      PARQUET_THROW_NOT_OK(list->Append());
      const int size = static_cast<const arrow::FixedSizeListType&>(type).list_size();
      for (int i = 0; i < size; ++i) {
        AppendRandom(list->value_builder(), type.field(0)->nullable(), lists, random);
      }
      return;
    }
    case arrow::Type::MAP: {
      auto* map = static_cast<arrow::MapBuilder*>(builder);
      PARQUET_THROW_NOT_OK(map->Append());
      const auto length = (*random)() % (lists.max_length + 1);
      for (uint64_t i = 0; i < length; ++i) {
        AppendRandom(map->key_builder(), false, lists, random);
        AppendRandom(map->item_builder(), true, lists, random);
      }
      return;
    }
    default: {
      auto* structs = static_cast<arrow::StructBuilder*>(builder);
      PARQUET_THROW_NOT_OK(structs->Append());
      for (int i = 0; i < structs->num_fields(); ++i) {
        AppendRandom(structs->field_builder(i), type.field(i)->nullable(), lists, random);
      }
    }
  }
}

inline std::shared_ptr<arrow::Array> RandomArray(const NestedCase& nested, int64_t rows,
                                                 const RandomLists& lists,
                                                 std::mt19937_64* random) {
  auto builder = *arrow::MakeBuilder(nested.type);
  for (int64_t row = 0; row < rows; ++row) {
    AppendRandom(builder.get(), nested.nullable, lists, random);
  }
  return *builder->Finish();
}

inline std::shared_ptr<arrow::Buffer> WriteArray(
    const NestedCase& nested, const std::shared_ptr<arrow::Array>& array,
    const NestedLayout& layout) {
  parquet::WriterProperties::Builder builder;
  builder.compression(layout.codec)
      ->data_pagesize(layout.page_bytes)
      ->write_batch_size(64)
      ->data_page_version(layout.v2_pages ? parquet::ParquetDataPageVersion::V2
                                          : parquet::ParquetDataPageVersion::V1);
  // Without a page index, V1 pages end at a number of bytes, in the middle of a row.
  if (!layout.v2_pages) builder.disable_write_page_index();
  if (layout.dictionary) {
    builder.enable_dictionary()->dictionary_pagesize_limit(4000);
  } else {
    builder.disable_dictionary();
  }
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("column", nested.type, nested.nullable)}), {array});
  // Without the Arrow schema, lists of fixed size would be read back as variable-length
  // lists.
  const auto arrow_properties =
      parquet::ArrowWriterProperties::Builder().store_schema()->build();
  auto sink = *arrow::io::BufferOutputStream::Create();
  PARQUET_THROW_NOT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(),
                                                  sink, array->length() + 1,
                                                  builder.build(), arrow_properties));
  return *sink->Finish();
}

// Returns the column as Arrow reads the column.
inline std::shared_ptr<arrow::Array> ReadArray(
    const std::shared_ptr<arrow::Buffer>& bytes) {
  auto reader = *parquet::arrow::OpenFile(
      std::make_shared<arrow::io::BufferReader>(bytes), arrow::default_memory_pool());
  auto table = *reader->ReadTable();
  return *arrow::Concatenate(table->column(0)->chunks());
}

// The expected rows of one leaf, with elements as their bytes.
struct ExpectedRows {
  std::vector<std::vector<int64_t>> offsets;
  std::vector<std::string> elements;
  std::vector<uint8_t> valid;
};

class LeafWalk {
 public:
  LeafWalk(const NestedCase& nested, std::string fill)
      : nested_(nested), fill_(std::move(fill)) {
    rows_.offsets.assign(static_cast<size_t>(nested.depth), {0});
  }

  void AddRow(const arrow::Array& array, int64_t row) {
    root_ = true;
    Add(array, row, /*null=*/false, /*level=*/0, /*at=*/0);
  }

  const ExpectedRows& rows() const { return rows_; }

 private:
  int64_t Held(size_t level) const {
    if (level < rows_.offsets.size()) {
      return static_cast<int64_t>(rows_.offsets[level].size()) - 1;
    }
    return static_cast<int64_t>(rows_.elements.size()) /
           std::max<int64_t>(nested_.list_size, 1);
  }

  void MarkRow(bool null) {
    if (root_) rows_.valid.push_back(null ? 0 : 1);
    root_ = false;
  }

  template <typename List>
  void AddList(const List& list, int64_t i, bool null, size_t level, size_t at) {
    MarkRow(null);
    if (!null) {
      for (int64_t j = 0; j < list.value_length(i); ++j) {
        Add(*list.values(), list.value_offset(i) + j, false, level + 1, at);
      }
    }
    if (level < rows_.offsets.size()) rows_.offsets[level].push_back(Held(level + 1));
  }

  static int64_t LeavesOf(const arrow::DataType& type) {
    if (type.id() != arrow::Type::FIXED_SIZE_LIST) return 1;
    const auto& list = static_cast<const arrow::FixedSizeListType&>(type);
    return list.list_size() * LeavesOf(*list.value_type());
  }

  void Add(const arrow::Array& array, int64_t i, bool null, size_t level, size_t at) {
    null = null || array.IsNull(i);
    switch (array.type_id()) {
      case arrow::Type::LIST:
      case arrow::Type::MAP:
        return AddList(static_cast<const arrow::ListArray&>(array), i, null, level, at);
      case arrow::Type::LARGE_LIST:
        return AddList(static_cast<const arrow::LargeListArray&>(array), i, null, level,
                       at);
      case arrow::Type::FIXED_SIZE_LIST:
        if (null && level >= rows_.offsets.size()) {
          MarkRow(null);
          rows_.elements.insert(rows_.elements.end(),
                                static_cast<size_t>(LeavesOf(*array.type())), fill_);
          return;
        }
        return AddList(static_cast<const arrow::FixedSizeListArray&>(array), i, null,
                       level, at);
      case arrow::Type::STRUCT: {
        const auto& structs = static_cast<const arrow::StructArray&>(array);
        return Add(*structs.field(nested_.path[at]), i, null, level, at + 1);
      }
      default:
        rows_.elements.push_back(null ? fill_ : Element(array, i));
    }
  }

  static std::string Element(const arrow::Array& array, int64_t i) {
    const auto bytes = [](auto value) {
      return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    switch (array.type_id()) {
      case arrow::Type::INT32:
        return bytes(static_cast<const arrow::Int32Array&>(array).Value(i));
      case arrow::Type::DOUBLE:
        return bytes(static_cast<const arrow::DoubleArray&>(array).Value(i));
      case arrow::Type::BOOL:
        return bytes(static_cast<const arrow::BooleanArray&>(array).Value(i));
      default:
        return static_cast<const arrow::StringArray&>(array).GetString(i);
    }
  }

  const NestedCase& nested_;
  std::string fill_;
  ExpectedRows rows_;
  bool root_ = false;
};

// A leaf of a file in memory. Leaf 0 is the leaf reached through all first children.
class OpenedLeaf {
 public:
  OpenedLeaf(const std::shared_ptr<arrow::Buffer>& bytes, int leaf)
      : file_(parquet::ParquetFileReader::Open(
            std::make_shared<arrow::io::BufferReader>(bytes))),
        leaf_(leaf) {}

  ChunkInput Chunk() {
    ChunkInput input;
    group_ = file_->RowGroup(0);
    input.pages = group_->GetColumnPageReader(leaf_);
    input.descr = file_->metadata()->schema()->Column(leaf_);
    input.rows = group_->metadata()->num_rows();
    input.levels = group_->metadata()->ColumnChunk(leaf_)->num_values();
    return input;
  }

 private:
  std::unique_ptr<parquet::ParquetFileReader> file_;
  std::shared_ptr<parquet::RowGroupReader> group_;
  int leaf_;
};

}  // namespace fastload::testing
