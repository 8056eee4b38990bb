// Errors of the core: arrow::Status with a kind, and a location that is added once.
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "arrow/result.h"
#include "arrow/status.h"
#include "parquet/exception.h"

namespace fastload {

using arrow::Result;
using arrow::Status;

// The kind of an error, named like the Python exception classes.
enum class ErrorKind : uint8_t {
  kCorruptFile,    // the bytes violate the Parquet format
  kNullValue,      // a null in a column without a fill
  kUnsupported,    // legal Parquet that fastload can't read
  kSourceChanged,  // a file has changed since it was planned
  kStorage,        // the operating system refused a read
  kValue,          // a value does not fit the requested type
  kClosed,         // the pipeline was closed
  kInternal,       // a fault of fastload itself, never of a file
};

// The location of an error; -1 and "" mean "unknown".
struct Location {
  std::string file;
  int32_t row_group = -1;
  std::string column;
  int64_t page = -1;        // data page of the column chunk, from 0
  int64_t row = -1;         // row of the file, from 0
  int32_t file_index = -1;  // index of the file in the dataset; not part of the message
};

// A row group of a dataset.
struct RowGroupId {
  int32_t file;
  int32_t row_group;
};

// Makes an error whose message is one line: line breaks, which messages of libparquet
// carry, become spaces.
Status MakeError(ErrorKind kind, std::string message);

// Returns the kind of a status that MakeError made, or nullopt for any other status.
std::optional<ErrorKind> KindOf(const Status& status);

// Marks the error as caused by value number `value` among the values that the failing
// function was asked for. The caller of that function renumbers the value from its own
// first value.
Status AtValue(const Status& status, int64_t value);

// Returns the number that AtValue gave to an error, or nullopt for any other status.
std::optional<int64_t> ValueOf(const Status& status);

// Marks the error as caused by row number `row` of a row group.
Status AtRow(const Status& status, int64_t row);

// Returns the row that AtRow gave to an error, or nullopt for any other status.
std::optional<int64_t> RowOf(const Status& status);

// Adds " - at part-003.parquet, row group 7, column `price`" to an error without a
// location. Returns an error that has a location, OutOfMemory(), and OK, unchanged.
Status At(const Status& status, const Location& location);

// Returns the row group of the location that At added, or nullopt if the location named
// no row group or no index of a file.
std::optional<RowGroupId> RowGroupOf(const Status& status);

// Returns the error of memory that the system refused. Neither the call nor a copy of the
// status takes memory.
Status OutOfMemory() noexcept;

// Return the errors of a pass, and of a dataset, that was closed: kinds of
// ErrorKind::kClosed. Neither a call nor a copy of the status takes memory.
Status PassClosed() noexcept;
Status DatasetClosed() noexcept;

// Converts a status that libparquet threw. Arrow's status code alone says when a codec or
// a decoder refuses bytes; such a status becomes an ErrorKind::kCorruptFile.
Status FromParquet(const Status& thrown);

// Turns the exception that is being handled into a Status; call it in a catch block. Only
// what libparquet says of a file is an ErrorKind::kCorruptFile; any other exception is a
// fault of fastload (ErrorKind::kInternal), which must not count as damage of a row
// group. std::bad_alloc, here or in the making of the Status, becomes OutOfMemory().
Status FromException() noexcept;

// Runs `fn` (returning a Status or a Result) and turns every exception into a Status, as
// FromException does. Only the unwinding by which a thread ends passes.
template <typename Fn>
auto CatchParquet(Fn&& fn) -> decltype(fn()) {
  try {
    return std::forward<Fn>(fn)();
  }
#if defined(__GLIBCXX__)
  catch (const abi::__forced_unwind&) {
    throw;
  }
#endif
  catch (...) {
    return FromException();
  }
}

}  // namespace fastload
