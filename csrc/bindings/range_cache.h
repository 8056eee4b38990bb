// The cache of byte ranges, which Python's client fills.
#pragma once

#include <memory>
#include <string>

#include "fastload/fetch/range_cache.h"
#include "pybind11/pybind11.h"

namespace fastload {

// The right to fill an entry of the cache.
class PyRangeClaim {
 public:
  PyRangeClaim(std::shared_ptr<RangeCache> cache, std::unique_ptr<RangeClaim> claim)
      : cache_(std::move(cache)), claim_(std::move(claim)) {}

  int64_t Publish(const pybind11::buffer& bytes);
  void Release() { claim_->Release(); }
  int descriptor() const { return claim_->descriptor(); }

 private:
  const std::shared_ptr<RangeCache> cache_;
  const std::unique_ptr<RangeClaim> claim_;
};

}  // namespace fastload
