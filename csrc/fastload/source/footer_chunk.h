// What the bytes of a footer say about row groups and column chunks, read without
// libparquet, which parses all columns of a footer to tell of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/base/byte_range.h"
#include "parquet/types.h"

namespace fastload {

// The numbers of a column chunk in its footer.
struct FooterChunk {
  int64_t offset = 0;  // of the first page, the dictionary page included
  int64_t compressed_bytes = 0;
  int64_t uncompressed_bytes = 0;  // pages with their headers
  // Number of values as the pages count values: nulls included, and in a column of lists
  // one value for each list without elements.
  int64_t values = 0;
  parquet::Compression::type codec = parquet::Compression::UNCOMPRESSED;
  int64_t nulls = -1;        // -1: unknown
  int64_t value_bytes = -1;  // bytes of all byte-array values; -1: unknown
  ByteRange offset_index;    // no bytes: none
  ByteRange column_index;
  // No offset: none; -1 bytes: of unknown length.
  ByteRange bloom_filter = {0, -1};
  // Faults of the file's writer: V2 pages that are compressed are marked as if not, and
  // compressed_bytes leaves out the header of the dictionary page.
  bool marks_no_compression = false;
  bool leaves_out_header = false;

  bool operator==(const FooterChunk&) const = default;
};

// What the bytes of a footer say.
struct FooterRead {
  std::string schema;         // a footer with all but the row groups, and of 0 rows
  std::string_view writer;    // the program that wrote the file; empty: not told
  std::vector<int64_t> rows;  // of each row group
  // By leaf and row group; a leaf of which a chunk is odd (it lies in another file or is
  // encrypted, or a number is missing) has none. FooterChunk::nulls is the number that
  // statistics state, believed or not; faults of the writer are left out.
  std::vector<std::vector<FooterChunk>> chunks;
};

// Reads `thrift`, a footer in Thrift's compact protocol. Returns nullopt for bytes that
// are odd in any way: libparquet says whether they are a footer.
std::optional<FooterRead> ReadFooter(std::string_view thrift);

// Returns a footer of each of `leaves` alone, with its chunks; `leaves` are sorted, and
// `thrift` is a footer of `columns` leaves. Returns nullopt for odd bytes.
std::optional<std::vector<std::string>> FootersOfColumns(
    std::string_view thrift, size_t columns, const std::vector<int32_t>& leaves);

}  // namespace fastload
