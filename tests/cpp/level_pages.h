// Levels encoded by hand, and schemas of one list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "parquet/column_page.h"
#include "parquet/schema.h"

namespace fastload::testing {

// Returns a schema of one column with the given leaf.
inline std::unique_ptr<parquet::SchemaDescriptor> Schema(
    const parquet::schema::NodePtr& column) {
  auto schema = std::make_unique<parquet::SchemaDescriptor>();
  schema->Init(
      parquet::schema::GroupNode::Make("root", parquet::Repetition::REQUIRED, {column}));
  return schema;
}

inline parquet::schema::NodePtr List(const parquet::schema::NodePtr& element,
                                     parquet::Repetition::type repetition) {
  return parquet::schema::GroupNode::Make(
      "list", repetition,
      {parquet::schema::GroupNode::Make("list", parquet::Repetition::REPEATED,
                                        {element})},
      parquet::LogicalType::List());
}

// Returns bit-packed levels, lowest bits first.
inline std::vector<uint8_t> Packed(const std::vector<uint8_t>& levels, int width) {
  std::vector<uint8_t> bytes((levels.size() * width + 7) / 8);
  for (size_t i = 0; i < levels.size() * width; ++i) {
    const int bit = levels[i / width] >> (i % width) & 1;
    bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | bit << (i % 8));
  }
  return bytes;
}

// The bytes of the levels of a V2 page.
struct LevelBytes {
  std::shared_ptr<arrow::Buffer> bytes;
  int32_t repetition = 0;  // bytes of repetition levels, which come first
  int32_t definition = 0;
};

// Encodes repetition levels (maximum 1) bit-packed, and definition levels (maximum 2 or
// 3) in runs.
inline LevelBytes Encode(const std::vector<uint8_t>& repetition,
                         const std::vector<uint8_t>& definition) {
  std::vector<uint8_t> bytes;
  const auto put = [&](size_t header) {
    for (; header >= 0x80; header >>= 7) {
      bytes.push_back(static_cast<uint8_t>(header | 0x80));
    }
    bytes.push_back(static_cast<uint8_t>(header));
  };
  put((repetition.size() + 7) / 8 << 1 | 1);
  const auto packed = Packed(repetition, 1);
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  LevelBytes levels;
  levels.repetition = static_cast<int32_t>(bytes.size());
  for (size_t i = 0; i < definition.size();) {
    const auto end =
        std::find_if(definition.begin() + static_cast<int64_t>(i), definition.end(),
                     [&](uint8_t level) { return level != definition[i]; });
    const auto length = static_cast<size_t>(end - definition.begin()) - i;
    put(length << 1);
    bytes.push_back(definition[i]);
    i += length;
  }
  levels.definition = static_cast<int32_t>(bytes.size()) - levels.repetition;
  levels.bytes = arrow::Buffer::FromVector(std::move(bytes));
  return levels;
}

}  // namespace fastload::testing
