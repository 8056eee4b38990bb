#include "fastload/decode/values/cast.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "fastload/base/half.h"
#include "parquet/types.h"

namespace fastload {

namespace {

// The conversion of a stored number: kWidth bytes become a Value.
template <typename Physical, typename Logical>
struct Number {
  using Value = Logical;
  static constexpr int kWidth = sizeof(Physical);
  static Value Load(const uint8_t* raw) {
    Physical value;
    std::memcpy(&value, raw, sizeof(value));
    return static_cast<Value>(value);
  }
};

struct Half {
  using Value = float;
  static constexpr int kWidth = 2;
  static Value Load(const uint8_t* raw) {
    return FloatFromHalf(Number<uint16_t, uint16_t>::Load(raw));
  }
};

__extension__ using Int128 = __int128;

// A timestamp: nanoseconds of a day, and the number of the day. In units of
// `kNanoseconds`; kBetween: the timestamp lies between two units.
template <int64_t kNanoseconds = 1>
struct Int96 {
  using Value = Int128;
  static constexpr int kWidth = 12;
  static constexpr Value kBetween = Value{1} << 126;
  static constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

  struct Stored {
    int64_t nanoseconds;
    int64_t day;  // 0: 1970-01-01
  };

  static Stored Read(const uint8_t* raw) {
    int64_t nanoseconds;
    uint32_t julian;
    std::memcpy(&nanoseconds, raw, sizeof(nanoseconds));
    std::memcpy(&julian, raw + sizeof(nanoseconds), sizeof(julian));
    // Day 0, long before the first day that nanoseconds reach, is the epoch in Arrow.
    if (julian == 0) return {0, 0};
    return {nanoseconds, julian - parquet::kJulianToUnixEpochDays};
  }

  static Value Load(const uint8_t* raw) {
    const Stored stored = Read(raw);
    if (kNanoseconds > 1 && stored.nanoseconds % kNanoseconds != 0) return kBetween;
    return Value{stored.day} * (kDay / kNanoseconds) + stored.nanoseconds / kNanoseconds;
  }

  static std::string Text(const uint8_t* raw) {
    Stored stored = Read(raw);
    stored.day += stored.nanoseconds / kDay;
    const auto nanoseconds =
        static_cast<uint64_t>((stored.nanoseconds % kDay + kDay) % kDay);
    if (stored.nanoseconds % kDay < 0) --stored.day;
    constexpr int64_t kMostDays = int64_t{32'767} * 365;  // that chrono counts
    std::string day = "day " + std::to_string(stored.day) + " since 1970-01-01";
    if (std::abs(stored.day) < kMostDays) {
      const std::chrono::year_month_day date{
          std::chrono::sys_days(std::chrono::days(stored.day))};
      char text[32];
      std::snprintf(text, sizeof(text), "%04d-%02u-%02u", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()),
                    static_cast<unsigned>(date.day()));
      day = text;
    }
    char time[32];
    const uint64_t seconds = nanoseconds / 1'000'000'000;
    std::snprintf(
        time, sizeof(time), "T%02u:%02u:%02u.%09u", static_cast<unsigned>(seconds / 3600),
        static_cast<unsigned>(seconds / 60 % 60), static_cast<unsigned>(seconds % 60),
        static_cast<unsigned>(nanoseconds % 1'000'000'000));
    return day + time;
  }
};

// The conversion of a value to an element; returns false if the value does not fit.
template <typename Int>
struct ToInteger {
  using Element = Int;
  template <typename Value>
  static bool Cast(Value value, Element* out) {
    if constexpr (std::is_floating_point_v<Value>) {
      // Both bounds are exact in a double; the upper bound is the first value that does
      // not fit.
      constexpr auto kLeast = static_cast<double>(std::numeric_limits<Int>::min());
      constexpr double kLimit =
          2.0 * static_cast<double>(Int{1} << (std::numeric_limits<Int>::digits - 1));
      const double wide = value;
      const bool inside = wide >= kLeast && wide < kLimit;
      *out = inside ? static_cast<Int>(wide) : Int{0};
      return inside && static_cast<double>(*out) == wide;
    } else if constexpr (std::is_same_v<Value, Int128>) {
      *out = static_cast<Int>(value);
      return static_cast<Value>(*out) == value;
    } else {
      *out = static_cast<Int>(value);
      return std::in_range<Int>(value);
    }
  }
};

struct ToBool {
  using Element = uint8_t;
  template <typename Value>
  static bool Cast(Value value, Element* out) {
    *out = value != 0;
    return true;
  }
};

template <typename Float>
struct ToFloat {
  using Element = Float;
  template <typename Value>
  static bool Cast(Value value, Element* out) {
    *out = static_cast<Float>(value);
    return true;
  }
};

// The conversion of integers to floats without rounding.
template <typename Float>
struct ToSameFloat {
  using Element = Float;
  template <typename Value>
  static bool Cast(Value value, Element* out) {
    *out = static_cast<Float>(value);
    Value back;
    return ToInteger<Value>::Cast(*out, &back) && back == value;
  }
};

template <uint16_t (*kRound)(float)>
struct ToSixteenBits {
  using Element = uint16_t;
  template <typename Value>
  static bool Cast(Value value, Element* out) {
    if constexpr (std::is_same_v<Value, float>) {
      *out = kRound(value);
    } else if constexpr (std::is_same_v<Value, Int128>) {
      if (static_cast<int64_t>(value) == value) {
        return Cast(static_cast<int64_t>(value), out);
      }
      *out = kRound(RoundToOdd(static_cast<double>(value)));
    } else if constexpr (sizeof(Value) == 8 && std::is_integral_v<Value>) {
      *out = kRound(RoundToOdd(RoundToOdd(value)));
    } else {
      *out = kRound(RoundToOdd(static_cast<double>(value)));
    }
    return true;
  }
};

template <typename From>
std::string TextOf(const uint8_t* raw) {
  using Value = typename From::Value;
  const Value value = From::Load(raw);
  if constexpr (std::is_same_v<Value, Int128>) {
    return From::Text(raw);
  } else if constexpr (std::is_floating_point_v<Value>) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value);
    return {text, end.ptr};
  } else {
    return std::to_string(value);
  }
}

template <typename From, typename To>
bool CastValues(const uint8_t* raw, int64_t n, uint8_t* out, Offender* offender) {
  using Element = typename To::Element;
  bool all_fit = true;
  for (int64_t i = 0; i < n; ++i) {
    Element element;
    all_fit &= To::Cast(From::Load(raw + i * From::kWidth), &element);
    std::memcpy(out + i * static_cast<int64_t>(sizeof(Element)), &element,
                sizeof(element));
  }
  for (int64_t i = 0; !all_fit && i < n; ++i) {
    const uint8_t* const at = raw + i * From::kWidth;
    Element element;
    if (To::Cast(From::Load(at), &element)) continue;
    *offender = {i, TextOf<From>(at)};
    return false;
  }
  return true;
}

template <typename From>
CastFn CastFrom(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return CastValues<From, ToBool>;
    case DType::kUInt8:
      return CastValues<From, ToInteger<uint8_t>>;
    case DType::kInt8:
      return CastValues<From, ToInteger<int8_t>>;
    case DType::kUInt16:
      return CastValues<From, ToInteger<uint16_t>>;
    case DType::kInt16:
      return CastValues<From, ToInteger<int16_t>>;
    case DType::kUInt32:
      return CastValues<From, ToInteger<uint32_t>>;
    case DType::kInt32:
      return CastValues<From, ToInteger<int32_t>>;
    case DType::kUInt64:
      return CastValues<From, ToInteger<uint64_t>>;
    case DType::kInt64:
      return CastValues<From, ToInteger<int64_t>>;
    case DType::kFloat16:
      return CastValues<From, ToSixteenBits<HalfFromFloat>>;
    case DType::kBFloat16:
      return CastValues<From, ToSixteenBits<BFloatFromFloat>>;
    case DType::kFloat32:
      return CastValues<From, ToFloat<float>>;
    case DType::kFloat64:
      return CastValues<From, ToFloat<double>>;
  }
  return nullptr;
}

}  // namespace

std::string_view NameOf(DType dtype) {
  constexpr std::array<std::string_view, 13> kNames = {
      "bool",   "uint8", "int8",    "uint16",   "int16",   "uint32", "int32",
      "uint64", "int64", "float16", "bfloat16", "float32", "float64"};
  return kNames[static_cast<size_t>(dtype)];
}

CastFn FindCast(Stored stored, DType dtype, bool exact) {
  // Other integers are converted to floats that hold every value of their type.
  if (exact && dtype == DType::kFloat64) {
    if (stored == Stored::kInt64) {
      return CastValues<Number<int64_t, int64_t>, ToSameFloat<double>>;
    }
    if (stored == Stored::kUInt64) {
      return CastValues<Number<int64_t, uint64_t>, ToSameFloat<double>>;
    }
  }
  switch (stored) {
    case Stored::kBool:
      return CastFrom<Number<uint8_t, uint8_t>>(dtype);
    case Stored::kInt8:
      return CastFrom<Number<int32_t, int8_t>>(dtype);
    case Stored::kUInt8:
      return CastFrom<Number<int32_t, uint8_t>>(dtype);
    case Stored::kInt16:
      return CastFrom<Number<int32_t, int16_t>>(dtype);
    case Stored::kUInt16:
      return CastFrom<Number<int32_t, uint16_t>>(dtype);
    case Stored::kInt32:
      return CastFrom<Number<int32_t, int32_t>>(dtype);
    case Stored::kUInt32:
      return CastFrom<Number<int32_t, uint32_t>>(dtype);
    case Stored::kInt64:
      return CastFrom<Number<int64_t, int64_t>>(dtype);
    case Stored::kUInt64:
      return CastFrom<Number<int64_t, uint64_t>>(dtype);
    case Stored::kFloat16:
      return CastFrom<Half>(dtype);
    case Stored::kFloat32:
      return CastFrom<Number<float, float>>(dtype);
    case Stored::kFloat64:
      return CastFrom<Number<double, double>>(dtype);
    case Stored::kInt96:
      return CastFrom<Int96<>>(dtype);
    case Stored::kDecimal:
      return nullptr;
  }
  return nullptr;
}

CastFn FindInt96Cast(int64_t nanoseconds) {
  switch (nanoseconds) {
    case 1:
      return CastValues<Int96<>, ToInteger<int64_t>>;
    case 1000:
      return CastValues<Int96<1000>, ToInteger<int64_t>>;
    case 1'000'000:
      return CastValues<Int96<1'000'000>, ToInteger<int64_t>>;
    case 1'000'000'000:
      return CastValues<Int96<1'000'000'000>, ToInteger<int64_t>>;
    default:
      return nullptr;
  }
}

}  // namespace fastload
