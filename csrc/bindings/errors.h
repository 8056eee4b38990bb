// The only conversion of the core's errors to Python's exceptions.
#pragma once

#include <utility>

#include "fastload/base/status.h"

namespace fastload {

// Throws the class of fastload.errors that belongs to the status; does nothing for OK.
// The caller holds the GIL.
void RaiseIfError(const Status& status);

// Returns the value of the result, or throws like RaiseIfError.
template <typename T>
T ValueOrRaise(Result<T> result) {
  RaiseIfError(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace fastload
