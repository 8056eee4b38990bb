// The numbers of a column chunk as libparquet tells them, and their check.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/footer_chunk.h"
#include "parquet/metadata.h"

namespace fastload {

// Returns the program of a name, which wrote a file.
const parquet::ApplicationVersion& WriterNamed(std::string_view name);

// Checks that the chunk lies inside the file, and that the sizes of which budgets of
// memory are made can be true, so that a damaged size is named with its place before much
// memory is asked for. Then sets what the chunk's own numbers don't say: nulls that the
// column implies, or that are not to be believed, and faults of the writer. `null_type`:
// the column holds nulls alone.
Status CheckChunk(const parquet::ApplicationVersion& writer,
                  const parquet::ColumnDescriptor& column, bool null_type,
                  int64_t file_bytes, int64_t rows, FooterChunk* chunk);

// Returns the numbers of a leaf's chunk. Throws the exceptions of libparquet.
Result<FooterChunk> ChunkOf(const parquet::RowGroupMetaData& row_group, int32_t leaf);

// Checks that the column is not encrypted. Under a plain footer each column may be
// encrypted with a key of its own (libparquet then throws when asked for the chunk's
// metadata) or with the footer's key.
Status CheckPlain(const parquet::RowGroupMetaData& row_group, int32_t leaf);

// The number of data pages of a column chunk in one encoding.
struct PageCount {
  std::string encoding;  // name of the encoding in the format
  int64_t pages = 0;
};

// Counts data pages by encoding, over all kinds of pages.
std::vector<PageCount> CountPages(const parquet::ColumnChunkMetaData& chunk);

}  // namespace fastload
