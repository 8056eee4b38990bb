#include "fastload/collate/dealt_column.h"

#include <cstring>

namespace fastload {
namespace {

// Copies the run's rows of `width` bytes, which `slots` holds by slot.
void GatherRows(const uint8_t* slots, int64_t width, const SlotRun& run, uint8_t* out,
                int64_t stride, NextRead next) {
  const uint8_t* bucket = slots + run.bucket * width;
  if (run.within != nullptr) {
    const uint8_t* ahead = run.ahead < 0 ? nullptr : slots + run.ahead * width;
    Gather(bucket, width, run.within, run.rows, out, stride, ahead, next);
    return;
  }
  for (int64_t i = 0; i < run.rows; ++i) {
    std::memcpy(out + i * stride, bucket + i * width, static_cast<size_t>(width));
  }
}

}  // namespace

void DealtColumn::Gather(const SlotRun& run, uint8_t* out, int64_t stride) const {
  if (!table) return GatherRows(values, item, run, out, stride, NextRead::kLate);
  const int64_t width = table->code_bytes();
  const uint8_t* ahead = run.ahead < 0 ? nullptr : codes + run.ahead * width;
  GatherCodes(codes + run.bucket * width, width, run.within, run.rows, table->table(),
              item, out, ahead, NextRead::kLate);
}

void DealtColumn::GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const {
  GatherRows(valid, 1, run, out, stride, NextRead::kSoon);
}

}  // namespace fastload
