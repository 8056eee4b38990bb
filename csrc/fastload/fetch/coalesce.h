// Which requests bring the ranges that are wanted of a file.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/byte_range.h"

namespace fastload {

// Requests that cover `ranges` (in any order; those that overlap or touch are one): in
// order, none larger than `request_bytes`, none with a hole of more than `hole_bytes`
// between wanted bytes, each beginning and ending with a wanted byte. Their number is the
// least. A hole read along costs its bytes, one asked around a request: the cost is least
// if hole_bytes is what the link carries in the latency of a request.
std::vector<ByteRange> Coalesce(std::vector<ByteRange> ranges, int64_t hole_bytes,
                                int64_t request_bytes);

}  // namespace fastload
