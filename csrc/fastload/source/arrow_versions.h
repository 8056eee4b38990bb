// The differences between the releases of Arrow that the core compiles against. No other
// file asks for a version.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "arrow/io/interfaces.h"
#include "arrow/util/config.h"
#include "parquet/column_reader.h"
#include "parquet/metadata.h"
#include "parquet/properties.h"
#include "parquet/schema.h"

namespace fastload {

// Limits Thrift to strings and lists that fit into the `bytes` bytes which Thrift reads.
// Without a limit, Thrift allocates whatever length stands before a string or list.
inline void LimitThrift(int64_t bytes, parquet::ReaderProperties* properties) {
  const auto most = static_cast<int32_t>(std::clamp<int64_t>(bytes, 1, INT32_MAX));
  properties->set_thrift_string_size_limit(
      std::min(properties->thrift_string_size_limit(), most));
  properties->set_thrift_container_size_limit(
      std::min(properties->thrift_container_size_limit(), most));
}

// Parses a footer. Throws the exceptions of libparquet. A footer's length has 32 bits in
// the file, so `thrift` is shorter than 4 GiB.
inline std::shared_ptr<parquet::FileMetaData> ReadFileMetaData(std::string_view thrift) {
  parquet::ReaderProperties properties;
  LimitThrift(static_cast<int64_t>(thrift.size()), &properties);
#if ARROW_VERSION_MAJOR >= 26
  return parquet::FileMetaData::Make(thrift.data(), static_cast<int64_t>(thrift.size()),
                                     properties);
#else
  auto bytes = static_cast<uint32_t>(thrift.size());
  return parquet::FileMetaData::Make(thrift.data(), &bytes, properties);
#endif
}

// Opens the pages of the column chunk in `stream`, which has `values` values (nulls
// included) and is described by `descr`. Throws the exceptions of libparquet.
inline std::unique_ptr<parquet::PageReader> OpenPages(
    std::shared_ptr<arrow::io::InputStream> stream, int64_t values,
    parquet::Compression::type codec, const parquet::ReaderProperties& properties,
    const parquet::ColumnDescriptor& descr, bool always_compressed) {
#if ARROW_VERSION_MAJOR >= 25
  return parquet::PageReader::Open(std::move(stream), values, codec, properties, descr,
                                   always_compressed);
#else
  static_cast<void>(descr);
  return parquet::PageReader::Open(std::move(stream), values, codec, properties,
                                   always_compressed);
#endif
}

}  // namespace fastload
