// NumPy arrays as arguments.
#pragma once

#include "pybind11/numpy.h"

namespace fastload {

// A C-contiguous array; any other argument is copied and cast.
template <typename T>
using Array = pybind11::array_t<T, pybind11::array::c_style | pybind11::array::forcecast>;

}  // namespace fastload
