#include "fastload/base/scratch.h"

namespace fastload {

uint8_t* Scratch::Get(Use use, int64_t bytes) {
  if (bytes > bytes_[use] || !data_[use]) {
    data_[use].reset();
    bytes_[use] = 0;
    data_[use].reset(Slabs::OfProcess().Allocate(bytes));
    if (data_[use]) bytes_[use] = bytes;
  }
  return data_[use].get();
}

}  // namespace fastload
