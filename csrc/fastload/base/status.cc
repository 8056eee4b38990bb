#include "fastload/base/status.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace fastload {

namespace {

// Marks the status as one that lives as long as the process: copies share its state and
// so take no memory. Arrow has such statuses (arrow::internal::StatusConstant), but its
// headers do not say how to make one. An explicit instantiation may name a private
// member.
void MakeConstant(Status& status);

template <auto kState>
struct StateAccess {
  friend void MakeConstant(Status& status) { (status.*kState)->is_constant = true; }
};
template struct StateAccess<&Status::state_>;

constexpr const char kDetailId[] = "fastload::ErrorDetail";

class ErrorDetail : public arrow::StatusDetail {
 public:
  struct Members {
    std::optional<ErrorKind> kind;
    bool placed = false;  // keeps At from adding a second location on the way up
    std::optional<int64_t> value = std::nullopt;
    std::optional<int64_t> row = std::nullopt;
    std::optional<RowGroupId> row_group = std::nullopt;
  };
  explicit ErrorDetail(Members members) : members_(members) {}

  const char* type_id() const override { return kDetailId; }
  std::string ToString() const override { return "fastload"; }

  const Members& members() const { return members_; }

 private:
  Members members_;
};

const ErrorDetail* DetailOf(const Status& status) {
  const auto& detail = status.detail();
  // The ids are compared as text, because a second copy of the core has another address
  // for the same id.
  if (detail == nullptr || std::string_view(detail->type_id()) != kDetailId) {
    return nullptr;
  }
  return static_cast<const ErrorDetail*>(detail.get());
}

arrow::StatusCode CodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kCorruptFile:
    case ErrorKind::kNullValue:
    case ErrorKind::kValue:
      return arrow::StatusCode::Invalid;
    case ErrorKind::kUnsupported:
      return arrow::StatusCode::NotImplemented;
    case ErrorKind::kSourceChanged:
    case ErrorKind::kStorage:
      return arrow::StatusCode::IOError;
    case ErrorKind::kClosed:
      return arrow::StatusCode::Cancelled;
    case ErrorKind::kInternal:
      return arrow::StatusCode::UnknownError;
  }
  return arrow::StatusCode::UnknownError;
}

// Replaces line breaks and the spaces around them by one space; removes them at the end.
std::string OneLine(std::string text) {
  constexpr std::string_view kBreaks = "\n\r";
  if (text.find_first_of(kBreaks) == std::string::npos) return text;
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(kBreaks, at), text.size());
    std::string_view part = std::string_view(text).substr(at, end - at);
    part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
    part.remove_suffix(part.size() - (part.find_last_not_of(" \t") + 1));
    if (!line.empty() && !part.empty()) line += ' ';
    line += part;
    at = end + 1;
  }
  return line;
}

// Describes a location in one line: line breaks in names become spaces.
std::string Describe(const Location& location) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    text += text.empty() ? "" : ", ";
    text += OneLine(part);
  };
  if (!location.file.empty()) add(location.file);
  if (location.row_group >= 0) add("row group " + std::to_string(location.row_group));
  if (!location.column.empty()) add("column `" + location.column + "`");
  if (location.page >= 0) add("page " + std::to_string(location.page));
  if (location.row >= 0) add("row " + std::to_string(location.row));
  return text;
}

Status With(const Status& status, std::string message, ErrorDetail::Members members) {
  return Status(status.code(), std::move(message),
                std::make_shared<ErrorDetail>(members));
}

}  // namespace

Status MakeError(ErrorKind kind, std::string message) {
  return Status(CodeOf(kind), OneLine(std::move(message)),
                std::make_shared<ErrorDetail>(ErrorDetail::Members{.kind = kind}));
}

std::optional<ErrorKind> KindOf(const Status& status) {
  const ErrorDetail* detail = DetailOf(status);
  return detail == nullptr ? std::nullopt : detail->members().kind;
}

Status AtValue(const Status& status, int64_t value) {
  const ErrorDetail* detail = DetailOf(status);
  if (detail == nullptr) return status;
  auto members = detail->members();
  members.value = value;
  return With(status, status.message(), members);
}

std::optional<int64_t> ValueOf(const Status& status) {
  const ErrorDetail* detail = DetailOf(status);
  return detail == nullptr ? std::nullopt : detail->members().value;
}

Status AtRow(const Status& status, int64_t row) {
  const ErrorDetail* detail = DetailOf(status);
  if (detail == nullptr) return status;
  auto members = detail->members();
  members.row = row;
  return With(status, status.message(), members);
}

std::optional<int64_t> RowOf(const Status& status) {
  const ErrorDetail* detail = DetailOf(status);
  return detail == nullptr ? std::nullopt : detail->members().row;
}

namespace {

// Runs while the core is loaded, when an exception would have nobody to catch it.
Status Constant(std::optional<ErrorKind> kind, const char* message) noexcept {
  Status status = kind ? MakeError(*kind, message) : Status::OutOfMemory(message);
  MakeConstant(status);
  return status;
}

// Made when the core is loaded, so that they are there when there is no memory.
const Status kOutOfMemory = Constant(std::nullopt, "out of memory");
const Status kPassClosed = Constant(ErrorKind::kClosed, "The pass was closed");
const Status kDatasetClosed = Constant(ErrorKind::kClosed, "The dataset was closed");

// Returns true for copies of OutOfMemory(), which all share one message.
bool IsPlainOutOfMemory(const Status& status) {
  return &status.message() == &kOutOfMemory.message();
}

}  // namespace

Status At(const Status& status, const Location& location) {
  // Once there is no memory, there is none for a location either.
  if (status.ok() || IsPlainOutOfMemory(status)) return status;
  const std::string where = Describe(location);
  if (where.empty()) return status;
  const std::string message = OneLine(status.message()) + " - at " + where;
  const ErrorDetail* detail = DetailOf(status);
  if (detail != nullptr) {
    auto members = detail->members();
    if (members.placed) return status;
    members.placed = true;
    if (location.file_index >= 0 && location.row_group >= 0) {
      members.row_group = {location.file_index, location.row_group};
    }
    return With(status, message, members);
  }
  if (status.detail() != nullptr) {
    // Keep another library's detail (an errno, say), which is worth more than the flag.
    if (status.message().find(" - at ") != std::string::npos) return status;
    return Status(status.code(), message, status.detail());
  }
  return With(status, message, {.kind = std::nullopt, .placed = true});
}

std::optional<RowGroupId> RowGroupOf(const Status& status) {
  const ErrorDetail* detail = DetailOf(status);
  return detail == nullptr ? std::nullopt : detail->members().row_group;
}

Status OutOfMemory() noexcept { return kOutOfMemory; }

Status PassClosed() noexcept { return kPassClosed; }

Status DatasetClosed() noexcept { return kDatasetClosed; }

Status FromParquet(const Status& thrown) {
  // A failed read has a detail: an ErrorKind or an errno.
  const bool corrupt =
      thrown.IsIOError() || thrown.IsInvalid() || thrown.IsSerializationError();
  if (!corrupt || thrown.detail() != nullptr) return thrown;
  return MakeError(ErrorKind::kCorruptFile, thrown.message());
}

namespace {

// libparquet catches every exception of its Thrift decoder, and throws a ParquetException
// with the same words.
bool SaysOutOfMemory(std::string_view message) {
  return message.find(std::bad_alloc().what()) != std::string_view::npos;
}

// Rethrows the exception that is being handled.
Status StatusOfException() {
  try {
    throw;
  } catch (const parquet::ParquetStatusException& e) {
    return FromParquet(e.status());
  } catch (const parquet::ParquetException& e) {
    if (SaysOutOfMemory(e.what())) return OutOfMemory();
    return MakeError(ErrorKind::kCorruptFile, e.what());
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& e) {
    return MakeError(ErrorKind::kInternal,
                     std::string("fastload has a fault: ") + e.what());
  } catch (...) {
    return MakeError(ErrorKind::kInternal, "fastload has a fault: an unknown exception");
  }
}

}  // namespace

Status FromException() noexcept {
  try {
    return StatusOfException();
  } catch (...) {
    return OutOfMemory();  // there was no memory for the Status
  }
}

}  // namespace fastload
