// The one way from the core's errors to Python's.
#pragma once

#include <utility>

#include "fastload/base/status.h"

namespace fastload {

// Throws the class of fastload.errors that belongs to the status; does nothing for OK.
// The caller holds the GIL.
void RaiseIfError(const Status& status);

// The value of the result, or what RaiseIfError throws.
template <typename T>
T ValueOrRaise(Result<T> result) {
  RaiseIfError(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace fastload
