#include "fastload/dealt_column.h"

#include "fastload/gather.h"

namespace fastload {

void DealtColumn::Gather(const SlotRun& run, int64_t from, int64_t rows, uint8_t* out,
                         int64_t stride) const {
  const uint16_t* within = run.within + from;
  const uint8_t* base = codes ? codes->codes() : values;
  const int64_t width = codes ? codes->code_bytes() : item;
  const uint8_t* bucket = base + run.bucket * width;
  const uint8_t* ahead = run.ahead < 0 ? nullptr : base + (run.ahead + from) * width;
  if (codes) {
    GatherCodes(bucket, width, within, rows, codes->table(), item, out, ahead);
  } else {
    fastload::Gather(bucket, width, within, rows, out, stride, ahead);
  }
}

void DealtColumn::GatherValid(const SlotRun& run, uint8_t* out) const {
  const uint8_t* ahead = run.ahead < 0 ? nullptr : valid + run.ahead;
  fastload::Gather(valid + run.bucket, 1, run.within, run.rows, out, 1, ahead);
}

}  // namespace fastload
