#include "fastload/dealt_column.h"

#include <cstring>

namespace fastload {
namespace {

// Copies rows of `width` bytes, by slot at `slots`.
void GatherRows(const uint8_t* slots, int64_t width, const SlotRun& run, int64_t from,
                int64_t rows, uint8_t* out, int64_t stride, NextRead next) {
  const uint8_t* bucket = slots + run.bucket * width;
  if (run.within != nullptr) {
    const uint8_t* ahead = run.ahead < 0 ? nullptr : slots + (run.ahead + from) * width;
    Gather(bucket, width, run.within + from, rows, out, stride, ahead, next);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(out + i * stride, bucket + (from + i) * width,
                static_cast<size_t>(width));
  }
}

}  // namespace

void DealtColumn::Gather(const SlotRun& run, int64_t from, int64_t rows, uint8_t* out,
                         int64_t stride, NextRead next) const {
  if (!codes) return GatherRows(values, item, run, from, rows, out, stride, next);
  const int64_t width = codes->code_bytes();
  const uint8_t* ahead =
      run.ahead < 0 ? nullptr : codes->codes() + (run.ahead + from) * width;
  GatherCodes(codes->codes() + run.bucket * width, width, run.within + from, rows,
              codes->table(), item, out, ahead, next);
}

void DealtColumn::GatherValid(const SlotRun& run, uint8_t* out, int64_t stride) const {
  GatherRows(valid, 1, run, 0, run.rows, out, stride, NextRead::kSoon);
}

}  // namespace fastload
