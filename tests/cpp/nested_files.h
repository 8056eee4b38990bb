// Parquet files on disk whose columns of lists follow from file and row, and batches read
// back as text, row by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "arrow/json/from_string.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"
#include "fastload/scan/scan.h"
#include "parquet/arrow/writer.h"
#include "parquet/properties.h"
#include "row_files.h"

namespace fastload::testing {

inline constexpr int64_t kVectorSize = 40;
inline constexpr int64_t kPadLength = 4;
inline constexpr int64_t kPairsLength = 2;

// The columns of one row as JSON: as the file stores them, or, if `read`, as they are
// read with the fills of NestedColumns().
class NestedRow {
 public:
  NestedRow(int64_t file, int64_t row, bool read)
      : row_(row), number_(file * 1'000'000 + row), read_(read) {}

  bool tokens_valid() const { return row_ % 13 != 4; }
  bool words_valid() const { return row_ % 17 != 6; }
  bool vector_valid() const { return row_ % 23 != 9; }

  std::string number() const { return std::to_string(number_); }

  int64_t token_count() const {
    if (!tokens_valid()) return 0;
    return number_ % 97 == 0 ? 300 : number_ * 7 % 9;
  }
  std::string token(int64_t i) const {
    return (number_ + i) % 11 == 3 ? Null("-1") : std::to_string(number_ * 31 % 999 + i);
  }
  std::string tokens() const {
    return Lists(tokens_valid(), token_count(), [&](int64_t i) { return token(i); });
  }

  // list<string>
  std::string words() const {
    return Lists(words_valid(), number_ % 4, [&](int64_t i) {
      if ((number_ + i) % 7 == 2) return Null("\"(null)\"");
      const auto letter = static_cast<char>('a' + (number_ + i) % 26);
      return "\"" + std::string(static_cast<size_t>((number_ + i) % 6), letter) + "\"";
    });
  }

  // list<list<double>>
  std::string matrix() const {
    return Lists(row_ % 19 != 8, number_ % 3, [&](int64_t i) {
      return Lists((number_ + i) % 5 != 4, (number_ + i) % 4,
                   [&](int64_t j) { return std::to_string(number_ * 10 + j); });
    });
  }

  // fixed_size_list<float>[kVectorSize]
  std::string vector() const {
    if (!vector_valid() && !read_) return "null";
    return Lists(true, kVectorSize, [&](int64_t i) {
      if (!vector_valid() || (number_ + i) % 29 == 0) return Null("-1");
      return std::to_string(number_ % 1000 + i);
    });
  }

  // list<fixed_size_list<int16>[2]>
  int64_t pair_count() const { return number_ % 4; }
  std::string pair(int64_t i) const {
    return "[" + std::to_string(number_ % 100) + "," + std::to_string(i) + "]";
  }
  std::string pairs() const {
    return Lists(true, pair_count(), [&](int64_t i) { return pair(i); });
  }

 private:
  using Element = std::function<std::string(int64_t)>;
  std::string Null(const std::string& fill) const { return read_ ? fill : "null"; }
  std::string Lists(bool valid, int64_t count, const Element& element) const {
    if (!valid) return Null("[]");
    std::string text = "[";
    for (int64_t i = 0; i < count; ++i) text += (i > 0 ? "," : "") + element(i);
    return text + "]";
  }

  int64_t row_;
  int64_t number_;
  bool read_;
};

inline std::shared_ptr<arrow::Schema> NestedSchema() {
  const auto pair = arrow::fixed_size_list(arrow::int16(), 2);
  return arrow::schema(
      {arrow::field("number", arrow::int64()),
       arrow::field("tokens", arrow::list(arrow::int32())),
       arrow::field("words", arrow::list(arrow::utf8())),
       arrow::field("matrix", arrow::list(arrow::list(arrow::float64()))),
       arrow::field("vector", arrow::fixed_size_list(arrow::float32(), kVectorSize)),
       arrow::field("pairs", arrow::list(pair))});
}

inline std::shared_ptr<arrow::Table> NestedTable(int64_t file, int64_t first,
                                                 int64_t rows) {
  const auto schema = NestedSchema();
  std::vector<std::string> json(6, "[");
  for (int64_t row = first; row < first + rows; ++row) {
    const NestedRow values(file, row, /*read=*/false);
    const std::string texts[] = {values.number(), values.tokens(), values.words(),
                                 values.matrix(), values.vector(), values.pairs()};
    for (size_t c = 0; c < json.size(); ++c) {
      json[c] += (row > first ? "," : "") + texts[c];
    }
  }
  arrow::ArrayVector arrays;
  for (size_t c = 0; c < json.size(); ++c) {
    arrays.push_back(*arrow::json::ArrayFromJSONString(
        schema->field(static_cast<int>(c))->type(), json[c] + "]"));
  }
  return arrow::Table::Make(schema, arrays);
}

// Writes small pages, so that windows begin inside pages and skip whole pages.
inline void WriteNestedRows(const std::string& path, int64_t file,
                            const std::vector<int64_t>& row_group_rows) {
  parquet::WriterProperties::Builder properties;
  properties.data_pagesize(900)->write_batch_size(32)->compression(
      parquet::Compression::SNAPPY);
  properties.disable_dictionary("tokens");
  auto sink = *arrow::io::FileOutputStream::Open(path);
  auto writer = *parquet::arrow::FileWriter::Open(
      *NestedSchema(), arrow::default_memory_pool(), sink, properties.build());
  int64_t first = 0;
  for (const int64_t rows : row_group_rows) {
    PARQUET_THROW_NOT_OK(writer->WriteTable(*NestedTable(file, first, rows), rows));
    first += rows;
  }
  PARQUET_THROW_NOT_OK(writer->Close());
  PARQUET_THROW_NOT_OK(sink->Close());
}

inline std::vector<ColumnSpec> NestedColumns(size_t files) {
  std::vector<ColumnSpec> columns(6);
  for (size_t c = 0; c < columns.size(); ++c) {
    columns[c].name = NestedSchema()->field(static_cast<int>(c))->name();
    columns[c].leaves.assign(files, static_cast<int32_t>(c));
    columns[c].null_lists = c > 0;
  }
  columns[1].dtype = DType::kInt32;
  columns[1].depth = 1;
  columns[1].fill = BytesOf(int32_t{-1});
  columns[2].dtype = DType::kUInt8;
  columns[2].bytes = true;
  columns[2].depth = 1;
  columns[2].fill = "(null)";
  columns[3].dtype = DType::kFloat64;
  columns[3].depth = 2;
  columns[4].dtype = DType::kFloat32;
  columns[4].list_size = kVectorSize;
  columns[4].fill = BytesOf(-1.0F);
  columns[5].dtype = DType::kInt16;
  columns[5].depth = 1;
  columns[5].list_size = 2;
  return columns;
}

// One output, and the expected text of one of its rows.
struct NestedOutput {
  OutputSpec spec;
  std::function<std::string(const NestedRow&)> text;
};

// Returns every kind of output of lists, with some columns under two names.
inline std::vector<NestedOutput> NestedOutputs() {
  const auto bit = [](bool valid) { return std::string(valid ? "1" : "0"); };
  const auto padded = [](int64_t count, int64_t length, const auto& item,
                         const std::string& pad) {
    std::string text = "[";
    for (int64_t i = 0; i < length; ++i) {
      text += (i > 0 ? "," : "") + (i < count ? item(i) : pad);
    }
    return text + "]";
  };
  const auto vector = [](const NestedRow& row) { return row.vector(); };
  const auto tokens = [](const NestedRow& row) { return row.tokens(); };
  return {
      {{OutputKind::kColumn, {0}}, [](const NestedRow& row) { return row.number(); }},
      {{OutputKind::kRagged, {1}}, tokens},
      {{OutputKind::kPad, {1}, kPadLength, BytesOf(int32_t{-7})},
       [=](const NestedRow& row) {
         return padded(
             row.token_count(), kPadLength, [&](int64_t i) { return row.token(i); },
             "-7");
       }},
      {{.kind = OutputKind::kPad,
        .columns = {1},
        .length = kPadLength,
        .pad = BytesOf(int32_t{-7}),
        .keep_last = true,
        .pad_left = true},
       [=](const NestedRow& row) {
         const int64_t kept = std::min(row.token_count(), kPadLength);
         return padded(
             kPadLength, kPadLength,
             [&](int64_t i) {
               const int64_t at = i - (kPadLength - kept);
               return at < 0 ? "-7" : row.token(row.token_count() - kept + at);
             },
             "");
       }},
      {{.kind = OutputKind::kMask, .columns = {1}, .length = kPadLength},
       [=](const NestedRow& row) {
         return padded(row.token_count(), kPadLength, [](int64_t) { return "1"; }, "0");
       }},
      {{.kind = OutputKind::kMask,
        .columns = {5},
        .length = kPairsLength,
        .pad_left = true},
       [=](const NestedRow& row) {
         return padded(
             kPairsLength, kPairsLength,
             [&](int64_t i) { return i < kPairsLength - row.pair_count() ? "0" : "1"; },
             "");
       }},
      {{OutputKind::kLength, {1}, kPadLength},
       [](const NestedRow& row) {
         return std::to_string(std::min(row.token_count(), kPadLength));
       }},
      {{OutputKind::kValid, {1}},
       [=](const NestedRow& row) { return bit(row.tokens_valid()); }},
      {{OutputKind::kRagged, {2}}, [](const NestedRow& row) { return row.words(); }},
      {{OutputKind::kRagged, {3}}, [](const NestedRow& row) { return row.matrix(); }},
      {{OutputKind::kList, {4}}, vector},
      {{OutputKind::kValid, {4}},
       [=](const NestedRow& row) { return bit(row.vector_valid()); }},
      {{OutputKind::kRagged, {5}}, [](const NestedRow& row) { return row.pairs(); }},
      {{OutputKind::kPad, {5}, kPairsLength, BytesOf(int16_t{9})},
       [=](const NestedRow& row) {
         return padded(
             row.pair_count(), kPairsLength, [&](int64_t i) { return row.pair(i); },
             "[9,9]");
       }},
      {{OutputKind::kList, {4}}, vector},
      {{OutputKind::kRagged, {1}}, tokens},
      {{OutputKind::kValid, {2}},
       [=](const NestedRow& row) { return bit(row.words_valid()); }},
  };
}

inline std::vector<OutputSpec> SpecsOf(const std::vector<NestedOutput>& outputs) {
  std::vector<OutputSpec> specs;
  for (const NestedOutput& output : outputs) specs.push_back(output.spec);
  return specs;
}

// The rows of one output of a batch, as text.
class NestedTexts {
 public:
  NestedTexts(const Layout& layout, int32_t output, const OutputSpec& spec,
              const ColumnSpec& column, const Batch& batch)
      : slot_(layout.slot(output)),
        kind_(spec.kind),
        length_(spec.length),
        column_(column),
        dtype_(spec.kind == OutputKind::kMask || spec.kind == OutputKind::kValid
                   ? DType::kBool
               : spec.kind == OutputKind::kLength ? DType::kInt64
                                                  : column.dtype),
        base_(batch.block->data()),
        numbers_(batch.areas.numbers.data() + slot_.number),
        address_(slot_.levels > 0 ? base_ + numbers_[2 * slot_.levels]
                                  : Layout::Address(base_, batch.areas, slot_)) {}

  std::string operator()(int64_t row) const {
    if (slot_.levels > 0) return List(0, row);
    const uint8_t* at = address_ + row * slot_.stride;
    if (kind_ == OutputKind::kList) return Items(at, column_.list_size);
    const bool mask = kind_ == OutputKind::kMask;
    if (kind_ != OutputKind::kPad && !mask) return Element(at);
    std::string text = "[";
    for (int64_t i = 0; i < length_; ++i) {
      text += i > 0 ? "," : "";
      text += mask ? Element(at + i) : Item(at + i * ItemBytes(column_));
    }
    return text + "]";
  }

 private:
  template <typename T>
  static std::string Number(const uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return std::to_string(static_cast<int64_t>(value));
  }
  std::string Element(const uint8_t* at) const {
    switch (dtype_) {
      case DType::kInt16:
        return Number<int16_t>(at);
      case DType::kInt32:
        return Number<int32_t>(at);
      case DType::kInt64:
        return Number<int64_t>(at);
      case DType::kFloat32:
        return Number<float>(at);
      case DType::kFloat64:
        return Number<double>(at);
      default:
        return Number<uint8_t>(at);
    }
  }
  std::string Items(const uint8_t* at, int64_t count) const {
    std::string text = "[";
    for (int64_t i = 0; i < count; ++i) {
      text += (i > 0 ? "," : "") + Element(at + i * ItemSize(column_.dtype));
    }
    return text + "]";
  }
  std::string Item(const uint8_t* at) const {
    return column_.list_size > 0 ? Items(at, column_.list_size) : Element(at);
  }
  std::string List(int32_t level, int64_t list) const {
    const auto* offsets = reinterpret_cast<const int64_t*>(base_ + numbers_[2 * level]);
    const int64_t begin = offsets[list];
    const int64_t end = offsets[list + 1];
    if (column_.bytes && level + 1 == slot_.levels) {
      return "\"" + std::string(address_ + begin, address_ + end) + "\"";
    }
    std::string text = "[";
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) text += ",";
      text += level + 1 < slot_.levels ? List(level + 1, i)
                                       : Item(address_ + i * ItemBytes(column_));
    }
    return text + "]";
  }

  const Layout::Slot& slot_;
  OutputKind kind_;
  int64_t length_;
  const ColumnSpec& column_;
  DType dtype_;
  uint8_t* base_;
  const int64_t* numbers_;
  const uint8_t* address_;
};

}  // namespace fastload::testing
