#include "fastload/base/scratch.h"

#include <algorithm>
#include <cstddef>

#include "fastload/base/huge_pages.h"

namespace fastload {

uint8_t* Scratch::Get(Use use, int64_t bytes) {
  if (bytes > bytes_[use] || !data_[use]) {
    data_[use].reset();
    bytes_[use] = 0;
    data_[use].reset(static_cast<uint8_t*>(
        AllocateHuge(static_cast<size_t>(std::max<int64_t>(bytes, 1)))));
    if (data_[use]) bytes_[use] = bytes;
  }
  return data_[use].get();
}

}  // namespace fastload
