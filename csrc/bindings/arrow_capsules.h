// Imports of Arrow data from other libraries through the Arrow PyCapsule interface.
#pragma once

#include <memory>
#include <utility>

#include "arrow/c/bridge.h"
#include "bindings/errors.h"
#include "pybind11/pybind11.h"

namespace fastload {

// Returns the pointer in a capsule.
template <typename T>
T* HeldBy(const pybind11::handle& capsule, const char* name) {
  auto* const held = static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (held == nullptr) throw pybind11::error_already_set();
  return held;
}

inline std::shared_ptr<arrow::Schema> SchemaOf(const pybind11::object& schema) {
  const pybind11::object capsule = schema.attr("__arrow_c_schema__")();
  auto imported = arrow::ImportSchema(HeldBy<ArrowSchema>(capsule, "arrow_schema"));
  return ValueOrRaise(std::move(imported));
}

}  // namespace fastload
