#include "fastload/status.h"

#include <memory>
#include <string>
#include <string_view>

namespace fastload {

namespace {

constexpr const char kDetailId[] = "fastload::ErrorDetail";

// `placed` keeps At from adding a second place while the error travels up.
class ErrorDetail : public arrow::StatusDetail {
 public:
  ErrorDetail(std::optional<ErrorKind> kind, bool placed,
              std::optional<int64_t> row = std::nullopt)
      : kind_(kind), placed_(placed), row_(row) {}

  const char* type_id() const override { return kDetailId; }
  std::string ToString() const override { return "fastload"; }

  std::optional<ErrorKind> kind() const { return kind_; }
  bool placed() const { return placed_; }
  std::optional<int64_t> row() const { return row_; }

 private:
  std::optional<ErrorKind> kind_;
  bool placed_;
  std::optional<int64_t> row_;
};

const ErrorDetail* DetailOf(const Status& status) {
  const auto& detail = status.detail();
  // Compared as text: a second copy of the core has another address for the same id.
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
  }
  return arrow::StatusCode::UnknownError;
}

std::string Describe(const Place& place) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    text += text.empty() ? "" : ", ";
    text += part;
  };
  if (!place.file.empty()) add(place.file);
  if (place.row_group >= 0) add("row group " + std::to_string(place.row_group));
  if (!place.column.empty()) add("column `" + place.column + "`");
  if (place.page >= 0) add("page " + std::to_string(place.page));
  if (place.row >= 0) add("row " + std::to_string(place.row));
  return text;
}

}  // namespace

Status MakeError(ErrorKind kind, std::string message) {
  return Status(CodeOf(kind), std::move(message),
                std::make_shared<ErrorDetail>(kind, /*placed=*/false));
}

std::optional<ErrorKind> KindOf(const Status& status) {
  const ErrorDetail* detail = DetailOf(status);
  return detail == nullptr ? std::nullopt : detail->kind();
}

Status AtRow(const Status& status, int64_t row) {
  const ErrorDetail* detail = DetailOf(status);
  if (detail == nullptr) return status;
  return Status(status.code(), status.message(),
                std::make_shared<ErrorDetail>(detail->kind(), detail->placed(), row));
}

std::optional<int64_t> RowOf(const Status& status) {
  const ErrorDetail* detail = DetailOf(status);
  return detail == nullptr ? std::nullopt : detail->row();
}

Status At(const Status& status, const Place& place) {
  if (status.ok()) return status;
  const std::string where = Describe(place);
  if (where.empty()) return status;
  const std::string message = status.message() + " - at " + where;
  const ErrorDetail* detail = DetailOf(status);
  if (detail != nullptr) {
    if (detail->placed()) return status;
    return Status(status.code(), message,
                  std::make_shared<ErrorDetail>(detail->kind(), /*placed=*/true));
  }
  if (status.detail() != nullptr) {
    // Someone else's detail (an errno, say) is worth more than a flag of ours.
    if (status.message().find(" - at ") != std::string::npos) return status;
    return Status(status.code(), message, status.detail());
  }
  return Status(status.code(), message,
                std::make_shared<ErrorDetail>(std::nullopt, /*placed=*/true));
}

}  // namespace fastload
