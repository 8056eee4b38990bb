// The rows of a batch as a block has them, in the batch's own memory.
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

class BlockRows {
 public:
  // `outputs`: of the layout, for each field of the schema the one whose elements, in
  // their order, it has.
  BlockRows(std::shared_ptr<arrow::Schema> schema, const Layout& layout,
            std::span<const int32_t> outputs);

  // The record batch of a batch, which nobody else uses: bytes between its columns become
  // zeros. An error where a field is of another type than its output.
  Result<std::shared_ptr<arrow::RecordBatch>> Of(const std::shared_ptr<Block>& block,
                                                 const Layout::Areas& areas) const;

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  std::vector<Layout::Slot> slots_;  // by field
};

}  // namespace fastload
