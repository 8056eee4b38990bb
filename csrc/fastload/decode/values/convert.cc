#include "fastload/decode/values/convert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "parquet/types.h"

namespace fastload {

namespace {

constexpr int64_t kBlockValues = 256;

int RawWidth(const parquet::ColumnDescriptor& descr) {
  switch (descr.physical_type()) {
    case parquet::Type::BOOLEAN:
      return 1;
    case parquet::Type::BYTE_ARRAY:
      return sizeof(parquet::ByteArray);
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return descr.type_length();
    default:
      return parquet::GetTypeByteSize(descr.physical_type());
  }
}

bool SameBytes(Stored stored, DType dtype) {
  switch (stored) {
    case Stored::kBool:
      return dtype == DType::kBool || dtype == DType::kUInt8 || dtype == DType::kInt8;
    case Stored::kInt32:
      return dtype == DType::kInt32;
    case Stored::kUInt32:
      return dtype == DType::kUInt32;
    case Stored::kInt64:
      return dtype == DType::kInt64;
    case Stored::kUInt64:
      return dtype == DType::kUInt64;
    case Stored::kFloat16:
      return dtype == DType::kFloat16;
    case Stored::kFloat32:
      return dtype == DType::kFloat32;
    case Stored::kFloat64:
      return dtype == DType::kFloat64;
    default:
      return false;
  }
}

}  // namespace

Result<Converter> Converter::Make(const parquet::ColumnDescriptor& descr,
                                  const ColumnSpec& spec, int32_t file) {
  if (spec.fill.has_value() &&
      static_cast<int>(spec.fill->size()) != ItemSize(spec.dtype)) {
    return Status::Invalid("Expected a fill of ", ItemSize(spec.dtype), " bytes, got ",
                           spec.fill->size());
  }
  Converter converter;
  converter.spec_ = &spec;
  converter.multiplier_ = spec.Multiplier(file);
  converter.raw_width_ = RawWidth(descr);
  converter.item_size_ = ItemSize(spec.dtype);
  converter.of_views_ = descr.physical_type() == parquet::Type::BYTE_ARRAY;
  if (KeyEncoder::IsFor(spec)) {
    ARROW_ASSIGN_OR_RAISE(converter.keys_, KeyEncoder::Make(descr, spec));
    if (descr.logical_type()->is_decimal()) {
      ARROW_ASSIGN_OR_RAISE(converter.decimals_,
                            DecimalValues::Make(descr, /*unscaled=*/true));
      return converter;
    }
    converter.of_views_ = converter.keys_->of_bytes();
    if (converter.of_views_) converter.raw_width_ = sizeof(parquet::ByteArray);
    return converter;
  }
  ARROW_ASSIGN_OR_RAISE(const Stored stored, StoredOf(descr));
  if (stored == Stored::kDecimal) {
    ARROW_ASSIGN_OR_RAISE(converter.decimals_, DecimalValues::Make(descr, spec.unscaled));
    converter.checked_ = true;
    converter.cast_ =
        FindCast(spec.unscaled ? Stored::kInt64 : Stored::kFloat64, spec.dtype);
    return converter;
  }
  converter.int96_ = stored == Stored::kInt96;
  if (converter.multiplier_ != 1) {
    if (!IsInteger(stored)) {
      return Status::Invalid("Expected a multiplier of 1 for a column that is not of ",
                             "integers, got ", converter.multiplier_);
    }
    converter.checked_ = true;
    converter.load_ = converter.int96_ ? FindInt96Cast(-converter.multiplier_)
                                       : FindCast(stored, DType::kInt64);
    if (converter.load_ == nullptr || converter.multiplier_ == 0) {
      return Status::Invalid("Expected the factor of a unit, got ",
                             converter.multiplier_);
    }
    converter.cast_ = FindCast(Stored::kInt64, spec.dtype);
    return converter;
  }
  converter.identity_ = SameBytes(stored, spec.dtype);
  converter.checked_ = spec.cast || spec.exact || converter.int96_ || !IsInteger(stored);
  converter.cast_ = FindCast(stored, spec.dtype, spec.exact);
  return converter;
}

Status Converter::DoesNotFit(const Offender& offender) const {
  std::string message = "Expected a value that fits " + std::string(NameOf(spec_->dtype));
  if (multiplier_ > 1) {
    message += " after it is multiplied by " + std::to_string(multiplier_);
  } else if (multiplier_ < 0) {
    message += int96_ ? " as a whole number of units of " + std::to_string(-multiplier_) +
                            " nanoseconds"
                      : " after it is divided by " + std::to_string(-multiplier_) +
                            " without a remainder";
  } else if (int96_) {
    message +=
        " as nanoseconds (pass unit=\"us\" to Column; filters and split need a file with "
        "timestamps in microseconds)";
  } else if (spec_->exact) {
    message += " without rounding";
  }
  return AtValue(MakeError(ErrorKind::kValue, message + ", got " + offender.text),
                 offender.index);
}

Status Converter::Convert(const uint8_t* raw, int64_t n, uint8_t* out) const {
  if (n == 0) return Status::OK();  // an empty dictionary has no memory to copy from
  if (identity_) {
    std::memcpy(out, raw, static_cast<size_t>(n * item_size_));
    return Status::OK();
  }
  if (keys_ && !decimals_) {
    keys_->Encode(raw, n, out);
    return Status::OK();
  }
  if (decimals_ || load_ != nullptr) return ConvertThroughBlocks(raw, n, out);
  Offender offender;
  if (cast_(raw, n, out, &offender) || !checked_) return Status::OK();
  return DoesNotFit(offender);
}

Status Converter::ConvertThroughBlocks(const uint8_t* raw, int64_t n,
                                       uint8_t* out) const {
  for (int64_t done = 0; done < n; done += kBlockValues) {
    const int64_t count = std::min(n - done, kBlockValues);
    const uint8_t* const from = raw + done * raw_width_;
    uint8_t* const to = out + done * item_size_;
    Status status = ConvertBlock(from, count, to);
    while (!status.ok()) {
      const auto offender = ValueOf(status);
      if (!offender.has_value()) return status;
      // An earlier value may pass this step but fail a later step.
      Status before = ConvertBlock(from, *offender, to);
      if (before.ok()) return AtValue(status, done + *offender);
      status = std::move(before);
    }
  }
  return Status::OK();
}

Status Converter::ConvertBlock(const uint8_t* raw, int64_t n, uint8_t* out) const {
  std::array<int64_t, kBlockValues> block;
  auto* const bytes = reinterpret_cast<uint8_t*>(block.data());
  Offender offender;
  if (decimals_) {
    ARROW_ASSIGN_OR_RAISE(const bool fits, decimals_->Load(raw, n, bytes, &offender));
    if (!fits) return DoesNotFit(offender);
    if (keys_) {
      keys_->Encode(bytes, n, out);
      return Status::OK();
    }
  } else if (!load_(raw, n, bytes, &offender)) {
    return DoesNotFit(offender);
  }
  if (multiplier_ > 1) ARROW_RETURN_NOT_OK(Multiply(n, block.data()));
  if (multiplier_ < 0 && !int96_) ARROW_RETURN_NOT_OK(Divide(n, block.data()));
  if (cast_(bytes, n, out, &offender)) return Status::OK();
  if (multiplier_ < 0) {
    offender.text += " times " + std::to_string(-multiplier_);
  } else if (multiplier_ != 1) {
    const int64_t product = block[static_cast<size_t>(offender.index)];
    offender.text = std::to_string(product / multiplier_);
  }
  return DoesNotFit(offender);
}

Status Converter::Divide(int64_t n, int64_t* values) const {
  for (int64_t i = 0; i < n; ++i) {
    if (values[i] % multiplier_ != 0) {
      return DoesNotFit({i, std::to_string(values[i])});
    }
    values[i] /= -multiplier_;
  }
  return Status::OK();
}

Status Converter::Multiply(int64_t n, int64_t* values) const {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = values[i];
    if (__builtin_mul_overflow(value, multiplier_, &values[i])) {
      return DoesNotFit({i, std::to_string(value)});
    }
  }
  return Status::OK();
}

}  // namespace fastload
