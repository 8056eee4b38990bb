// Blocks of decoded rows whose values follow from the rows' numbers.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "fastload/blocks/decoded_writer.h"
#include "fastload/plan/columns.h"

namespace fastload::testing {

// The values of row i: the number itself, three floats, a text, and a list of texts.
inline std::string TextOf(int64_t row) {
  return std::string(static_cast<size_t>(row % 5), 'x') + std::to_string(row);
}
inline std::array<float, 3> VectorOf(int64_t row) {
  const auto first = static_cast<float>(row);
  return {first, first + 0.25F, first + 0.5F};
}
inline std::vector<std::string> ListOf(int64_t row) {
  std::vector<std::string> list;
  for (int64_t i = 0; i < row % 4; ++i) list.push_back(TextOf(row + i));
  return list;
}

inline ColumnSpec NumberSpec() {
  return {.name = "number", .leaves = {0}, .dtype = DType::kInt64};
}
inline ColumnSpec VectorSpec() {
  return {.name = "vector", .leaves = {1}, .dtype = DType::kFloat32, .list_size = 3};
}
inline ColumnSpec TextSpec() {
  return {.name = "text", .leaves = {2}, .dtype = DType::kUInt8, .bytes = true};
}
inline ColumnSpec ListSpec() {
  return {
      .name = "list", .leaves = {3}, .dtype = DType::kUInt8, .bytes = true, .depth = 1};
}

inline std::shared_ptr<arrow::Schema> BlockSchema() {
  const auto item = [](auto type) {
    return arrow::field("item", std::move(type), false);
  };
  return arrow::schema({
      arrow::field("number", arrow::int64(), false),
      arrow::field("vector", arrow::fixed_size_list(item(arrow::float32()), 3), false),
      arrow::field("text", arrow::large_utf8(), false),
      arrow::field("list", arrow::large_list(item(arrow::large_utf8())), false),
  });
}

// Returns the rows [first, first + rows).
inline std::shared_ptr<arrow::RecordBatch> BlockRows(int64_t first, int64_t rows) {
  const auto schema = BlockSchema();
  auto* const pool = arrow::default_memory_pool();
  arrow::Int64Builder numbers;
  arrow::FixedSizeListBuilder vectors(pool, std::make_shared<arrow::FloatBuilder>(),
                                      schema->field(1)->type());
  arrow::LargeStringBuilder texts;
  arrow::LargeListBuilder lists(pool, std::make_shared<arrow::LargeStringBuilder>(),
                                schema->field(3)->type());
  auto& floats = static_cast<arrow::FloatBuilder&>(*vectors.value_builder());
  auto& items = static_cast<arrow::LargeStringBuilder&>(*lists.value_builder());
  Status status;
  for (int64_t row = first; row < first + rows; ++row) {
    status &= numbers.Append(row);
    status &= vectors.Append();
    for (float value : VectorOf(row)) status &= floats.Append(value);
    status &= texts.Append(TextOf(row));
    status &= lists.Append();
    for (const std::string& text : ListOf(row)) status &= items.Append(text);
  }
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return arrow::RecordBatch::Make(
      schema, rows,
      {*numbers.Finish(), *vectors.Finish(), *texts.Finish(), *lists.Finish()});
}

// Writes a block of that name with one record batch for each number of rows. Returns the
// checksum.
inline uint64_t WriteBlock(const std::string& path, const std::string& name,
                           const std::vector<int64_t>& batches) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto writer = *DecodedWriter::Make(fd, name, BlockSchema());
  int64_t first = 0;
  Status status;
  for (int64_t rows : batches) {
    status &= writer->Add(*BlockRows(first, rows));
    first += rows;
  }
  const uint64_t checksum = *writer->Finish();
  close(fd);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return checksum;
}

}  // namespace fastload::testing
