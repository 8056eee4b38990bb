// Parquet files on disk whose values follow from file and row, and batches read back as
// text, row by row.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"
#include "fastload/scan/scan.h"
#include "fastload/source/file.h"
#include "parquet/arrow/writer.h"
#include "parquet/file_reader.h"
#include "parquet/properties.h"
#include "temporary_directory.h"

namespace fastload::testing {

// More float columns than fit a cache line.
inline constexpr int kStacked = 18;

// The values of one row: `number` int64, `half` float with nulls, `text` with nulls,
// `flag` bool, `s0`, ... float.
struct RowValues {
  int64_t number;
  float half;
  bool half_valid;
  std::string text;
  bool text_valid;
  bool flag;
};

inline RowValues ValuesAt(int64_t file, int64_t row) {
  const int64_t number = file * 1'000'000 + row;
  return {.number = number,
          .half = static_cast<float>(row) / 2,
          .half_valid = row % 7 != 3,
          .text = std::string(static_cast<size_t>(row % 23),
                              static_cast<char>('a' + number % 26)),
          .text_valid = row % 11 != 5,
          .flag = row % 3 == 1};
}

inline float StackedAt(int64_t row, int column) {
  return static_cast<float>(row * kStacked + column);
}

inline std::shared_ptr<arrow::Table> Rows(int64_t file, int64_t first, int64_t rows) {
  arrow::Int64Builder number;
  arrow::FloatBuilder half;
  arrow::StringBuilder text;
  arrow::BooleanBuilder flag;
  std::vector<arrow::FloatBuilder> stacked(kStacked);
  for (int64_t row = first; row < first + rows; ++row) {
    const RowValues values = ValuesAt(file, row);
    number.Append(values.number).ok();
    (values.half_valid ? half.Append(values.half) : half.AppendNull()).ok();
    (values.text_valid ? text.Append(values.text) : text.AppendNull()).ok();
    flag.Append(values.flag).ok();
    for (int c = 0; c < kStacked; ++c) stacked[c].Append(StackedAt(row, c)).ok();
  }
  arrow::FieldVector fields = {arrow::field("number", arrow::int64(), /*nullable=*/false),
                               arrow::field("half", arrow::float32()),
                               arrow::field("text", arrow::utf8()),
                               arrow::field("flag", arrow::boolean())};
  arrow::ArrayVector arrays = {*number.Finish(), *half.Finish(), *text.Finish(),
                               *flag.Finish()};
  for (int c = 0; c < kStacked; ++c) {
    fields.push_back(arrow::field("s" + std::to_string(c), arrow::float32()));
    arrays.push_back(*stacked[c].Finish());
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

// Writes small pages, so that windows begin inside pages and skip whole pages. A column
// whose dictionary would have more than `dictionary_bytes` goes on as values.
inline void WriteRows(
    const std::string& path, int64_t file, const std::vector<int64_t>& row_group_rows,
    int64_t dictionary_bytes = parquet::DEFAULT_DICTIONARY_PAGE_SIZE_LIMIT) {
  parquet::WriterProperties::Builder properties;
  properties.dictionary_pagesize_limit(dictionary_bytes);
  properties.data_pagesize(600)->write_batch_size(32)->compression(
      parquet::Compression::SNAPPY);
  properties.disable_dictionary("number");
  auto sink = *arrow::io::FileOutputStream::Open(path);
  auto writer = *parquet::arrow::FileWriter::Open(*Rows(file, 0, 0)->schema(),
                                                  arrow::default_memory_pool(), sink,
                                                  properties.build());
  int64_t first = 0;
  for (const int64_t rows : row_group_rows) {
    PARQUET_THROW_NOT_OK(writer->WriteTable(*Rows(file, first, rows), rows));
    first += rows;
  }
  PARQUET_THROW_NOT_OK(writer->Close());
  PARQUET_THROW_NOT_OK(sink->Close());
}

// Returns the spec of a file whose footer is read now.
inline FileSpec SpecOf(const std::string& path) {
  const std::string tail =
      *SerializeTail(*parquet::ParquetFileReader::OpenFile(path)->metadata());
  return {.path = path,
          .bytes = FileBytes(path),
          .mtime_ns = ModifiedNs(path),
          .footer = *Footer::Make(tail, FileBytes(path), path)};
}

template <typename T>
std::string BytesOf(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline std::vector<ColumnSpec> Columns(size_t files) {
  const auto make = [&](const std::string& name, int32_t leaf, DType dtype) {
    ColumnSpec spec;
    spec.name = name;
    spec.leaves.assign(files, leaf);
    spec.dtype = dtype;
    return spec;
  };
  std::vector<ColumnSpec> columns = {
      make("number", 0, DType::kInt64), make("half", 1, DType::kFloat32),
      make("text", 2, DType::kUInt8), make("flag", 3, DType::kBool)};
  columns[1].fill = BytesOf(-1.0F);
  columns[2].bytes = true;
  columns[2].fill = "(null)";
  for (int c = 0; c < kStacked; ++c) {
    columns.push_back(make("s" + std::to_string(c), 4 + c, DType::kFloat32));
  }
  return columns;
}

// Returns every kind of output, with some columns under two names.
inline std::vector<OutputSpec> Outputs() {
  std::vector<int32_t> stacked;
  for (int32_t c = 0; c < kStacked; ++c) stacked.push_back(4 + c);
  return {{OutputKind::kColumn, {0}}, {OutputKind::kColumn, {1}},
          {OutputKind::kValid, {1}},  {OutputKind::kStack, stacked},
          {OutputKind::kRagged, {2}}, {OutputKind::kValid, {2}},
          {OutputKind::kColumn, {0}}, {OutputKind::kFile, {}},
          {OutputKind::kRow, {}},     {OutputKind::kRealRow, {}},
          {OutputKind::kRagged, {2}}, {OutputKind::kColumn, {3}}};
}

struct RowId {
  int64_t file;
  int64_t row;
  bool real = true;
};

inline std::string Text(const RowId& id) {
  const RowValues values = ValuesAt(id.file, id.row);
  const std::string number = std::to_string(values.number);
  const std::string text = values.text_valid ? values.text : "(null)";
  std::string line = number;
  line +=
      " " + std::to_string(std::lround(2 * (values.half_valid ? values.half : -1.0F)));
  line += values.half_valid ? " valid" : " null";
  for (int c = 0; c < kStacked; ++c)
    line += " " + std::to_string(std::lround(StackedAt(id.row, c)));
  line += " '" + text + "'";
  line += values.text_valid ? " valid " : " null ";
  line += number + " file " + std::to_string(id.file) + " row " + std::to_string(id.row);
  line += id.real ? " real" : " repeat";
  line += " '" + text + "'";
  line += values.flag ? " yes" : " no";
  return line;
}

// Returns the rows of a batch of Outputs(), in the form of Text.
inline std::vector<std::string> Texts(const Layout& layout, const Batch& batch) {
  uint8_t* base = batch.block->data();
  const auto value = [&]<typename T>(T, int32_t output, int64_t row, int64_t at = 0) {
    const Layout::Slot& slot = layout.slot(output);
    T item;
    std::memcpy(&item,
                Layout::Address(base, batch.areas, slot) + row * slot.stride +
                    at * static_cast<int64_t>(sizeof(T)),
                sizeof(T));
    return item;
  };
  const auto bytes = [&](int32_t output, int64_t row) {
    const int64_t* numbers = batch.areas.numbers.data() + layout.slot(output).number;
    const auto* offsets = reinterpret_cast<const int64_t*>(base + numbers[0]);
    const char* values = reinterpret_cast<const char*>(base + numbers[2]);
    return "'" + std::string(values + offsets[row], values + offsets[row + 1]) + "'";
  };
  std::vector<std::string> lines;
  for (int64_t row = 0; row < batch.areas.rows; ++row) {
    std::string line = std::to_string(value(int64_t{}, 0, row));
    line += " " + std::to_string(std::lround(2 * value(float{}, 1, row)));
    line += value(uint8_t{}, 2, row) != 0 ? " valid" : " null";
    for (int c = 0; c < kStacked; ++c) {
      line += " " + std::to_string(std::lround(value(float{}, 3, row, c)));
    }
    line += " " + bytes(4, row);
    line += value(uint8_t{}, 5, row) != 0 ? " valid " : " null ";
    line += std::to_string(value(int64_t{}, 6, row));
    line += " file " + std::to_string(value(int32_t{}, 7, row));
    line += " row " + std::to_string(value(int64_t{}, 8, row));
    line += value(uint8_t{}, 9, row) != 0 ? " real" : " repeat";
    line += " " + bytes(10, row);
    line += value(uint8_t{}, 11, row) != 0 ? " yes" : " no";
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace fastload::testing
