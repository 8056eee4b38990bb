// Readers of flat columns.

#include <string>
#include <vector>

#include "column_file.h"
#include "count.h"
#include "fastload/decode/chunk_reader.h"

namespace fastload::instructions {
namespace {

using testing::ColumnData;
using testing::ColumnLayout;

// Reads a column of one row group to elements `stride` bytes apart.
template <typename ParquetType>
void CountFixed(const char* name, const std::vector<typename ParquetType::c_type>& values,
                const ColumnLayout& layout, DType dtype, double nulls = 0,
                int64_t stride = 8) {
  std::mt19937 random(1);
  ColumnData<ParquetType> data;
  for (const auto value : values) {
    const bool valid = random() % 1000 >= nulls * 1000;
    data.valid.push_back(valid);
    if (valid) data.values.push_back(value);
  }
  testing::OpenedColumn column(
      WriteColumn(testing::LeafNode(ParquetType::type_num), data, layout));
  ColumnSpec spec;
  spec.name = "column";
  spec.dtype = dtype;
  spec.fill = std::string(static_cast<size_t>(ItemSize(dtype)), '\1');
  std::vector<uint8_t> out(static_cast<size_t>(kRows * stride));
  Count(name, kRows, [&] {
    auto reader = *MakeFixedReader(column.Chunk(), &spec);
    Check(reader->Read(kRows, out.data(), stride, nullptr));
  });
}

void CountNumbers() {
  const ColumnLayout plain{.page_bytes = 1 << 17};
  ColumnLayout dictionary = plain;
  dictionary.dictionary = true;
  const auto kinds = Kinds(1000, 1);
  CountFixed<parquet::Int64Type>("dictionary_int64", kinds, dictionary, DType::kInt64);
  CountFixed<parquet::Int64Type>("dictionary_int64_strided", kinds, dictionary,
                                 DType::kInt64, 0, 13 * 8);
  CountFixed<parquet::Int64Type>("dictionary_int64_nulls", kinds, dictionary,
                                 DType::kInt64, 0.2);
  auto runs = kinds;
  for (size_t i = 0; i < runs.size(); ++i) runs[i] = kinds[i / 100];
  CountFixed<parquet::Int64Type>("dictionary_runs_int64", runs, dictionary,
                                 DType::kInt64);
  CountFixed<parquet::Int64Type>("plain_int64", kinds, plain, DType::kInt64);
  const std::vector<int32_t> narrow(kinds.begin(), kinds.end());
  CountFixed<parquet::Int32Type>("plain_int32_cast", narrow, plain, DType::kInt64);
}

void CountStrings(const char* name, uint64_t kinds, bool dictionary) {
  std::vector<std::string> strings;
  for (const int64_t kind : Kinds(kinds, 2)) {
    strings.emplace_back(static_cast<size_t>(kind & 31), 'x');
    strings.back() += std::to_string(kind & 0xFFFF);
  }
  ColumnData<parquet::ByteArrayType> data;
  data.valid.assign(strings.size(), 1);
  for (const std::string& string : strings) data.values.emplace_back(string);
  const ColumnLayout layout{.dictionary = dictionary, .page_bytes = 1 << 17};
  testing::OpenedColumn column(
      WriteColumn(testing::LeafNode(parquet::Type::BYTE_ARRAY), data, layout));
  ColumnSpec spec;
  spec.name = "column";
  spec.bytes = true;
  spec.fill = "";
  std::vector<ByteView> views(kRows);
  Count(name, kRows, [&] {
    ByteArena arena;
    auto reader = *MakeBytesReader(column.Chunk(), &spec);
    Check(reader->Read(kRows, views.data(), nullptr, &arena));
  });
}

}  // namespace

void CountColumns() {
  CountNumbers();
  CountStrings("plain_strings", 1 << 20, false);
  CountStrings("dictionary_strings", 1000, true);
}

}  // namespace fastload::instructions
