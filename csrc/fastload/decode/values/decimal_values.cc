#include "fastload/decode/values/decimal_values.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "parquet/types.h"

namespace fastload {

namespace {

std::string WrongLength(int64_t bytes) {
  return "Expected a decimal of 1 to " + std::to_string(kMaxDecimalBytes) +
         " bytes, got " + std::to_string(bytes);
}

template <typename Int>
int64_t LoadInteger(const uint8_t* raw) {
  Int value;
  std::memcpy(&value, raw, sizeof(value));
  return value;
}

}  // namespace

Result<DecimalValues> DecimalValues::Make(const parquet::ColumnDescriptor& descr,
                                          bool unscaled) {
  const parquet::Type::type physical = descr.physical_type();
  int width = sizeof(parquet::ByteArray);
  if (physical == parquet::Type::FIXED_LEN_BYTE_ARRAY) {
    width = descr.type_length();
    if (width < 1 || width > kMaxDecimalBytes) {
      return MakeError(ErrorKind::kUnsupported, WrongLength(width));
    }
  } else if (physical != parquet::Type::BYTE_ARRAY) {
    width = parquet::GetTypeByteSize(physical);
  }
  const auto& logical =
      static_cast<const parquet::DecimalLogicalType&>(*descr.logical_type());
  return DecimalValues(physical, width, DecimalScale(logical.scale()), unscaled);
}

template <typename LoadFn>
void DecimalValues::LoadNarrow(int64_t n, uint8_t* out, const LoadFn& load) const {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = load(i);
    if (unscaled_) {
      std::memcpy(out + i * 8, &value, sizeof(value));
    } else {
      const double scaled = scale_.Apply(value);
      std::memcpy(out + i * 8, &scaled, sizeof(scaled));
    }
  }
}

Result<UnscaledInteger> DecimalValues::LoadWide(const uint8_t* raw) const {
  if (physical_ == parquet::Type::FIXED_LEN_BYTE_ARRAY) {
    return UnscaledInteger::FromBigEndian(raw, width_);
  }
  parquet::ByteArray bytes;
  std::memcpy(&bytes, raw, sizeof(bytes));
  if (bytes.len == 0 || bytes.len > kMaxDecimalBytes) {
    return MakeError(ErrorKind::kCorruptFile, WrongLength(bytes.len));
  }
  return UnscaledInteger::FromBigEndian(bytes.ptr, static_cast<int>(bytes.len));
}

Result<bool> DecimalValues::Load(const uint8_t* raw, int64_t n, uint8_t* out,
                                 Offender* offender) const {
  if (physical_ == parquet::Type::INT32) {
    LoadNarrow(n, out, [raw](int64_t i) { return LoadInteger<int32_t>(raw + i * 4); });
    return true;
  }
  if (physical_ == parquet::Type::INT64) {
    LoadNarrow(n, out, [raw](int64_t i) { return LoadInteger<int64_t>(raw + i * 8); });
    return true;
  }
  if (physical_ == parquet::Type::FIXED_LEN_BYTE_ARRAY && width_ <= 8) {
    const auto load = [&]<int kBytes>(std::integral_constant<int, kBytes>) {
      if (width_ != kBytes) return;
      LoadNarrow(n, out,
                 [raw](int64_t i) { return LoadBigEndian<kBytes>(raw + i * kBytes); });
    };
    [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
      (load(std::integral_constant<int, kLess + 1>()), ...);
    }(std::make_integer_sequence<int, 8>());
    return true;
  }
  const bool is_pair = physical_ == parquet::Type::FIXED_LEN_BYTE_ARRAY && width_ == 16;
  for (int64_t i = 0; i < n; ++i) {
    if (is_pair && !unscaled_) {
      const auto high = LoadBigEndian<8>(raw + i * 16);
      const auto low = LoadBigEndian<8>(raw + i * 16 + 8);
      if (high == low >> 63) {
        const double value = scale_.Apply(low);
        std::memcpy(out + i * 8, &value, sizeof(value));
        continue;
      }
    }
    ARROW_ASSIGN_OR_RAISE(const UnscaledInteger integer, LoadWide(raw + i * width_));
    if (!unscaled_) {
      const double value = scale_.Apply(integer);
      std::memcpy(out + i * 8, &value, sizeof(value));
      continue;
    }
    const auto value = integer.ToInt64();
    if (!value.has_value()) {
      *offender = {i, integer.ToString()};
      return false;
    }
    std::memcpy(out + i * 8, &*value, sizeof(*value));
  }
  return true;
}

}  // namespace fastload
