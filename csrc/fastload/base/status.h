// Errors of the core: arrow::Status with a kind, and a place that is added once.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "arrow/result.h"
#include "arrow/status.h"
#include "parquet/exception.h"

namespace fastload {

using arrow::Result;
using arrow::Status;

// What went wrong, in the words of the Python exception classes.
enum class ErrorKind : uint8_t {
  kCorruptFile,    // the bytes are not what the format asks for
  kNullValue,      // a null where the column has no fill
  kUnsupported,    // legal Parquet that fastload can't read
  kSourceChanged,  // a file is no longer the one that was planned
  kStorage,        // the operating system refused a read
  kValue,          // a value does not fit the type asked for
  kClosed,         // the pipeline was closed
};

// Where an error happened; -1 and "" stand for "not known".
struct Place {
  std::string file;
  int32_t row_group = -1;
  std::string column;
  int64_t page = -1;        // data pages of the column chunk, from 0
  int64_t row = -1;         // of the file, from 0
  int32_t file_index = -1;  // of the dataset's files; not part of the sentence
};

// A row group of a dataset.
struct RowGroupId {
  int32_t file;
  int32_t row_group;
};

Status MakeError(ErrorKind kind, std::string message);

// The kind of a status made by MakeError; nullopt for any other status.
std::optional<ErrorKind> KindOf(const Status& status);

// The error of one value among those that the failing function was asked for. Whoever
// called it counts the value anew, from its own first one.
Status AtValue(const Status& status, int64_t value);

// The number that AtValue gave to an error; nullopt for any other status.
std::optional<int64_t> ValueOf(const Status& status);

// The error of one row of a row group.
Status AtRow(const Status& status, int64_t row);

// The row that AtRow gave to an error; nullopt for any other status.
std::optional<int64_t> RowOf(const Status& status);

// Adds " - at part-003.parquet, row group 7, column `price`" to an error without a
// place; an error that has one, and OK, come back as they are.
Status At(const Status& status, const Place& place);

// An error of a row group, whose message has the place.
Status AtRowGroup(ErrorKind kind, std::string message, RowGroupId row_group);

// The row group of the place that At added; nullopt if that named none, or no index of a
// file.
std::optional<RowGroupId> RowGroupOf(const Status& status);

// What libparquet throws as a status: that of bytes that a codec or a decoder refuses,
// which Arrow tells by its code alone, becomes an ErrorKind::kCorruptFile.
Status FromParquet(const Status& thrown);

// Runs `fn` (returning Status) and turns what libparquet throws into a Status.
template <typename Fn>
Status CatchParquet(Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const parquet::ParquetStatusException& e) {
    return FromParquet(e.status());
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("out of memory");
  } catch (const std::exception& e) {
    return MakeError(ErrorKind::kCorruptFile, e.what());
  }
}

}  // namespace fastload
