// A summary of what the footers of many files say about leaf columns.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/footer.h"

namespace fastload {

struct LeafSummary {
  // Elements, nulls included, plus one for each list without elements.
  int64_t values = 0;
  // Bytes of all byte-array values, or bytes of the pages where a writer left out the
  // bytes of values.
  int64_t value_bytes = 0;
  // The first row group, by file, that is known to contain a null; -1: none.
  int64_t null_file = -1;
  int64_t null_row_group = -1;
  // Nulls that footers tell of, at any level of lists.
  int64_t nulls = 0;
  // False if some row group may contain a null that its footer does not tell of.
  bool nulls_known = true;
};

// Summarizes columns over files. `leaves[column][file]` is the index of the column's leaf
// in the file, or -1 if the file lacks the column. A chunk outside its file is an
// ErrorKind::kCorruptFile.
Result<std::vector<LeafSummary>> SummarizeLeaves(
    const std::vector<std::shared_ptr<Footer>>& footers,
    const std::vector<std::vector<int32_t>>& leaves);

}  // namespace fastload
