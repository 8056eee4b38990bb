// The choice of requests that cover the wanted ranges of a file.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/byte_range.h"

namespace fastload {

// Returns the smallest number of requests that cover `ranges`, in order. Input ranges may
// come in any order; ranges that overlap or touch count as one. No request is larger than
// `request_bytes`, none has a hole of more than `hole_bytes` between wanted bytes, and
// each begins and ends with a wanted byte. Reading a hole costs the bytes of the hole;
// leaving a hole out costs one more request. The cost is lowest if `hole_bytes` is what
// the link transfers during the latency of a request.
std::vector<ByteRange> Coalesce(std::vector<ByteRange> ranges, int64_t hole_bytes,
                                int64_t request_bytes);

}  // namespace fastload
