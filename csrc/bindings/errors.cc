#include "bindings/errors.h"

#include <optional>
#include <string>

#include "pybind11/pybind11.h"

namespace fastload {

namespace py = pybind11;

namespace {

// Messages may contain names of files, which may be of any bytes.
py::object TextOf(const std::string& message) {
  const auto bytes = static_cast<Py_ssize_t>(message.size());
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), bytes, "backslashreplace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

[[noreturn]] void RaiseOurs(const char* class_name, const std::string& message,
                            std::optional<RowGroupId> row_group = std::nullopt) {
  // Imported when needed, because the package is still being imported when the core is
  // imported.
  const py::object type = py::module_::import("fastload.errors").attr(class_name);
  const py::object error = type(TextOf(message));
  if (row_group) {
    error.attr("_row_group") = py::make_tuple(row_group->file, row_group->row_group);
  }
  py::set_error(type, error);
  throw py::error_already_set();
}

[[noreturn]] void RaiseBuiltin(PyObject* type, const std::string& message) {
  py::set_error(type, TextOf(message));
  throw py::error_already_set();
}

[[noreturn]] void RaiseKind(ErrorKind kind, const Status& status) {
  const std::string& message = status.message();
  switch (kind) {
    case ErrorKind::kCorruptFile:
      RaiseOurs("CorruptFileError", message, RowGroupOf(status));
    case ErrorKind::kNullValue:
      RaiseOurs("NullValueError", message);
    case ErrorKind::kUnsupported:
      RaiseOurs("UnsupportedTypeError", message);
    case ErrorKind::kSourceChanged:
      RaiseOurs("SourceChangedError", message);
    case ErrorKind::kStorage:
      RaiseOurs("StorageError", message);
    case ErrorKind::kValue:
      RaiseBuiltin(PyExc_ValueError, message);
    case ErrorKind::kClosed:
    case ErrorKind::kInternal:
      RaiseBuiltin(PyExc_RuntimeError, message);
  }
  RaiseBuiltin(PyExc_RuntimeError, message);
}

}  // namespace

void RaiseIfError(const Status& status) {
  if (status.ok()) return;
  const std::string& message = status.message();
  if (const auto kind = KindOf(status)) RaiseKind(*kind, status);
  switch (status.code()) {
    case arrow::StatusCode::OutOfMemory:
      RaiseBuiltin(PyExc_MemoryError, message);
    case arrow::StatusCode::IOError:
      RaiseOurs("StorageError", message);
    case arrow::StatusCode::NotImplemented:
      RaiseOurs("UnsupportedTypeError", message);
    case arrow::StatusCode::Invalid:
      RaiseBuiltin(PyExc_ValueError, message);
    case arrow::StatusCode::TypeError:
      RaiseBuiltin(PyExc_TypeError, message);
    case arrow::StatusCode::IndexError:
      RaiseBuiltin(PyExc_IndexError, message);
    default:
      RaiseBuiltin(PyExc_RuntimeError, status.ToString());
  }
}

}  // namespace fastload
