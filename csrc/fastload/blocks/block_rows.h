// A batch's rows as a record batch over the batch's own memory, as a cached row group
// stores rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "fastload/base/memory.h"
#include "fastload/base/status.h"
#include "fastload/plan/layout.h"

namespace fastload {

// A conversion of batches to record batches, without a copy.
class BlockRows {
 public:
  // `outputs` holds, for each field of the schema, the layout's output whose elements the
  // field has, in the same order.
  BlockRows(std::shared_ptr<arrow::Schema> schema, const Layout& layout,
            std::span<const int32_t> outputs);

  // Returns the record batch of a batch that nobody else uses; sets the bytes between the
  // batch's columns to 0. Returns an error if a field's type differs from its output's
  // type.
  Result<std::shared_ptr<arrow::RecordBatch>> Of(const std::shared_ptr<Block>& block,
                                                 const Layout::Areas& areas) const;

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  std::vector<Layout::Slot> slots_;  // by field
};

}  // namespace fastload
