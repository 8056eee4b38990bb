// What the footers of many files say of leaf columns, taken together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/footer.h"

namespace fastload {

struct LeafSummary {
  int64_t values = 0;  // elements, nulls among them; one for each list without elements
  // Bytes of all byte-array values; where a writer left them out, those of the pages.
  int64_t value_bytes = 0;
  // The first row group in which a null is known of, by file; -1 = none.
  int64_t null_file = -1;
  int64_t null_row_group = -1;
};

// `leaves[column][file]` is the index of the column's leaf in the file, -1 where the file
// lacks it. Of a column without `statistics` nulls are not looked for, and the bytes are
// those of the pages, which is quicker. A chunk that does not lie in its file is an
// ErrorKind::kCorruptFile.
Result<std::vector<LeafSummary>> SummarizeLeaves(
    const std::vector<std::shared_ptr<Footer>>& footers,
    const std::vector<std::vector<int32_t>>& leaves, const std::vector<bool>& statistics);

}  // namespace fastload
