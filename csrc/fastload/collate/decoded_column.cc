#include "fastload/collate/decoded_column.h"

#include <cstring>

#include "fastload/base/gather.h"

namespace fastload {
namespace {

// Copies the run's rows of `width` bytes.
void GatherRows(const uint8_t* rows, int64_t width, const RowRun& run, uint8_t* out,
                int64_t stride, NextRead next) {
  if (run.index != nullptr) {
    return Gather(rows, width, run.index, run.rows, out, stride, next);
  }
  const uint8_t* from = rows + run.row * width;
  for (int64_t i = 0; i < run.rows; ++i) {
    std::memcpy(out + i * stride, from + i * width, static_cast<size_t>(width));
  }
}

}  // namespace

void DecodedColumn::Gather(const RowRun& run, uint8_t* out, int64_t stride) const {
  if (!table) return GatherRows(values, item, run, out, stride, NextRead::kLate);
  GatherCodes(codes, table->code_bytes(), run.index, run.rows, table->table(), item, out,
              NextRead::kLate);
}

void DecodedColumn::Gather(const SlotRun& run, uint8_t* out, int64_t stride) const {
  if (!table) {
    return fastload::Gather(values + run.bucket * item, item, run.within, run.rows, out,
                            stride, NextRead::kLate);
  }
  const int64_t width = table->code_bytes();
  GatherCodes(codes + run.bucket * width, width, run.within, run.rows, table->table(),
              item, out, NextRead::kLate);
}

void DecodedColumn::GatherValid(const RowRun& run, uint8_t* out, int64_t stride) const {
  GatherRows(valid, 1, run, out, stride, NextRead::kSoon);
}

void DecodedColumn::GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const {
  fastload::Gather(valid + run.bucket, 1, run.within, run.rows, out, stride);
}

}  // namespace fastload
