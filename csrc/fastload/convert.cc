#include "fastload/convert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "fastload/decimal.h"
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

Stored StoredInt32(const parquet::LogicalType& logical) {
  if (!logical.is_int()) return Stored::kInt32;
  const auto& type = static_cast<const parquet::IntLogicalType&>(logical);
  switch (type.bit_width()) {
    case 8:
      return type.is_signed() ? Stored::kInt8 : Stored::kUInt8;
    case 16:
      return type.is_signed() ? Stored::kInt16 : Stored::kUInt16;
    default:
      return type.is_signed() ? Stored::kInt32 : Stored::kUInt32;
  }
}

Stored StoredInt64(const parquet::LogicalType& logical) {
  if (!logical.is_int()) return Stored::kInt64;
  const auto& type = static_cast<const parquet::IntLogicalType&>(logical);
  return type.is_signed() ? Stored::kInt64 : Stored::kUInt64;
}

Result<Stored> StoredOf(const parquet::ColumnDescriptor& descr) {
  const parquet::LogicalType& logical = *descr.logical_type();
  const parquet::Type::type physical = descr.physical_type();
  const bool bytes = physical == parquet::Type::BYTE_ARRAY ||
                     physical == parquet::Type::FIXED_LEN_BYTE_ARRAY;
  if (logical.is_decimal()) {
    if (physical == parquet::Type::INT32 || physical == parquet::Type::INT64 || bytes) {
      return Stored::kDecimal;
    }
  }
  switch (physical) {
    case parquet::Type::BOOLEAN:
      return Stored::kBool;
    case parquet::Type::INT32:
      return StoredInt32(logical);
    case parquet::Type::INT64:
      return StoredInt64(logical);
    case parquet::Type::INT96:
      return Stored::kInt96;
    case parquet::Type::FLOAT:
      return Stored::kFloat32;
    case parquet::Type::DOUBLE:
      return Stored::kFloat64;
    default:
      break;
  }
  if (logical.is_float16() && descr.type_length() == 2) return Stored::kFloat16;
  return MakeError(ErrorKind::kUnsupported,
                   "Expected a column of fixed-width values, got " +
                       parquet::TypeToString(physical) + " (" + logical.ToString() + ")");
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

bool IsInteger(Stored stored) {
  return (stored >= Stored::kInt8 && stored <= Stored::kUInt64) ||
         stored == Stored::kInt96;
}

Result<UnscaledInteger> LoadDecimal(parquet::Type::type physical, int raw_width,
                                    const uint8_t* raw) {
  if (physical == parquet::Type::INT32) {
    int32_t value;
    std::memcpy(&value, raw, sizeof(value));
    return UnscaledInteger(value);
  }
  if (physical == parquet::Type::INT64) {
    int64_t value;
    std::memcpy(&value, raw, sizeof(value));
    return UnscaledInteger(value);
  }
  if (physical == parquet::Type::FIXED_LEN_BYTE_ARRAY) {
    return UnscaledInteger::FromBigEndian(raw, raw_width);
  }
  parquet::ByteArray bytes;
  std::memcpy(&bytes, raw, sizeof(bytes));
  if (bytes.len == 0 || bytes.len > kMaxDecimalBytes) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a decimal of 1 to " + std::to_string(kMaxDecimalBytes) +
                         " bytes, got " + std::to_string(bytes.len));
  }
  return UnscaledInteger::FromBigEndian(bytes.ptr, static_cast<int>(bytes.len));
}

}  // namespace

std::string_view NameOf(DType dtype) {
  constexpr std::array<std::string_view, 13> kNames = {
      "bool",   "uint8", "int8",    "uint16",   "int16",   "uint32", "int32",
      "uint64", "int64", "float16", "bfloat16", "float32", "float64"};
  return kNames[static_cast<size_t>(dtype)];
}

Result<Converter> Converter::Make(const parquet::ColumnDescriptor& descr,
                                  const ColumnSpec& spec, int32_t file) {
  Converter converter;
  converter.spec_ = &spec;
  converter.multiplier_ = spec.Multiplier(file);
  ARROW_ASSIGN_OR_RAISE(converter.stored_, StoredOf(descr));
  converter.physical_ = descr.physical_type();
  converter.raw_width_ = RawWidth(descr);
  converter.item_size_ = ItemSize(spec.dtype);
  const Stored stored = converter.stored_;
  if (stored == Stored::kDecimal) {
    if (converter.physical_ == parquet::Type::FIXED_LEN_BYTE_ARRAY &&
        (converter.raw_width_ < 1 || converter.raw_width_ > kMaxDecimalBytes)) {
      return MakeError(ErrorKind::kUnsupported,
                       "Expected a decimal of 1 to " + std::to_string(kMaxDecimalBytes) +
                           " bytes, got " + std::to_string(converter.raw_width_));
    }
    converter.scale_ =
        static_cast<const parquet::DecimalLogicalType&>(*descr.logical_type()).scale();
    converter.direct_ = false;
    converter.checked_ = true;
    converter.cast_ =
        FindCast(spec.unscaled ? Stored::kInt64 : Stored::kFloat64, spec.dtype);
    return converter;
  }
  if (converter.multiplier_ != 1) {
    if (!IsInteger(stored)) {
      return Status::Invalid("Expected a multiplier of 1 for a column that is not of ",
                             "integers, got ", converter.multiplier_);
    }
    converter.direct_ = false;
    converter.checked_ = true;
    converter.load_ = FindCast(stored, DType::kInt64);
    converter.cast_ = FindCast(Stored::kInt64, spec.dtype);
    return converter;
  }
  converter.identity_ = SameBytes(stored, spec.dtype);
  converter.checked_ = spec.cast || spec.exact || !IsInteger(stored);
  converter.cast_ = FindCast(stored, spec.dtype, spec.exact);
  return converter;
}

Status Converter::DoesNotFit(const std::string& offender) const {
  std::string message = "Expected a value that fits " + std::string(NameOf(spec_->dtype));
  if (multiplier_ != 1) {
    message += " after it is multiplied by " + std::to_string(multiplier_);
  } else if (spec_->exact) {
    message += " without rounding";
  }
  return MakeError(ErrorKind::kValue, message + ", got " + offender);
}

Status Converter::Convert(const uint8_t* raw, int64_t n, uint8_t* out) {
  if (n == 0) return Status::OK();  // an empty dictionary has no memory to copy from
  if (identity_) {
    std::memcpy(out, raw, static_cast<size_t>(n * item_size_));
    return Status::OK();
  }
  if (!direct_) return ConvertThroughBlocks(raw, n, out);
  std::string offender;
  if (cast_(raw, n, out, &offender) || !checked_) return Status::OK();
  return DoesNotFit(offender);
}

Status Converter::ConvertThroughBlocks(const uint8_t* raw, int64_t n, uint8_t* out) {
  std::array<int64_t, kBlockValues> block;
  auto* const bytes = reinterpret_cast<uint8_t*>(block.data());
  while (n > 0) {
    const int64_t count = std::min(n, kBlockValues);
    if (stored_ == Stored::kDecimal) {
      ARROW_RETURN_NOT_OK(LoadDecimals(raw, count, bytes));
    } else {
      ARROW_RETURN_NOT_OK(LoadIntegers(raw, count, block.data()));
    }
    std::string offender;
    if (!cast_(bytes, count, out, &offender)) return DoesNotFit(offender);
    raw += count * raw_width_;
    out += count * item_size_;
    n -= count;
  }
  return Status::OK();
}

Status Converter::LoadIntegers(const uint8_t* raw, int64_t n, int64_t* out) {
  std::string offender;
  if (!load_(raw, n, reinterpret_cast<uint8_t*>(out), &offender)) {
    return DoesNotFit(offender);
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = out[i];
    if (__builtin_mul_overflow(value, multiplier_, &out[i])) {
      return DoesNotFit(std::to_string(value));
    }
  }
  return Status::OK();
}

Status Converter::LoadDecimals(const uint8_t* raw, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    ARROW_ASSIGN_OR_RAISE(const UnscaledInteger integer,
                          LoadDecimal(physical_, raw_width_, raw + i * raw_width_));
    if (spec_->unscaled) {
      const auto value = integer.ToInt64();
      if (!value.has_value()) return DoesNotFit("a decimal of more than 64 bits");
      int64_t product;
      if (__builtin_mul_overflow(*value, multiplier_, &product)) {
        return DoesNotFit(std::to_string(*value));
      }
      std::memcpy(out + i * 8, &product, 8);
    } else {
      const double value = integer.ToDouble(scale_);
      std::memcpy(out + i * 8, &value, 8);
    }
  }
  return Status::OK();
}

}  // namespace fastload
