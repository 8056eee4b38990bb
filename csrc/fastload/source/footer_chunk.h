// What the bytes of a footer say about row groups and column chunks, read without
// libparquet, which parses all columns of a footer to tell of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
};

// A footer, cut at its row groups.
struct FooterCut {
  std::string schema;  // a footer with all but the row groups, and of 0 rows
  std::vector<int64_t> rows;  // of each row group
};

// Cuts `thrift`, a footer in Thrift's compact protocol. Returns nullopt for bytes that are
// odd in any way: libparquet says whether they are a footer. Column chunks are not checked
// beyond their lengths.
std::optional<FooterCut> CutFooter(std::string_view thrift);

// Called with the index of a row group, its rows, the index of a leaf, the numbers of the
// chunk and the bytes of its struct. The walk ends at the first false.
using VisitChunk = std::function<bool(size_t, int64_t, int32_t, const FooterChunk&,
                                      std::string_view)>;

// Visits the chunks of `leaves`, which are sorted, of all row groups of a footer of
// `columns` leaves. Returns false if the bytes are odd, if one of these chunks is (it lies
// in another file or is encrypted, or a number is missing), or if a visit returned false.
// FooterChunk::nulls is the number that statistics state, believed or not; faults of the
// writer are left out.
bool VisitChunks(std::string_view thrift, size_t columns,
                 const std::vector<int32_t>& leaves, const VisitChunk& visit);

// Returns the name of the program that wrote the file; empty if the footer names none or
// is odd.
std::string_view WriterOf(std::string_view thrift);

// Returns a footer of one column alone: `chunks` are the bytes of a chunk's struct and the
// rows of each row group. Returns nullopt if the bytes of the footer `schema`, a
// FooterCut::schema of `columns` leaves, are odd.
struct OneColumn {
  std::string_view chunk;
  int64_t rows = 0;
};
std::optional<std::string> FooterOfColumn(const std::string& schema, size_t columns,
                                          int32_t leaf,
                                          const std::vector<OneColumn>& chunks);

}  // namespace fastload
