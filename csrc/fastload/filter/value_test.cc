#include "fastload/filter/value_test.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "fastload/base/clones.h"

namespace fastload {
namespace {

// With more ranges, the right range is found by binary search.
constexpr size_t kFewRanges = 4;

// Conversions from the bits of an element to its key, which has as many bits.
struct Signed {
  template <typename T>
  static FASTLOAD_INLINE T Key(T bits) {
    return bits;
  }
};
struct Offset {  // uint64
  template <typename T>
  static FASTLOAD_INLINE T Key(T bits) {
    return bits ^ std::numeric_limits<T>::min();
  }
};
struct Float {
  template <typename T>
  static FASTLOAD_INLINE T Key(T bits) {
    return bits ^ ((bits >> (8 * sizeof(T) - 1)) & std::numeric_limits<T>::max());
  }
};

template <typename Order, typename T>
FASTLOAD_INLINE void InRange(const T* elements, int64_t n, T first, T last,
                             uint8_t* passes) {
  using Unsigned = std::make_unsigned_t<T>;
  const auto low = static_cast<Unsigned>(first);
  const auto span = static_cast<Unsigned>(static_cast<Unsigned>(last) - low);
  for (int64_t i = 0; i < n; ++i) {
    const auto key = static_cast<Unsigned>(Order::Key(elements[i]));
    passes[i] |= static_cast<Unsigned>(key - low) <= span ? 1 : 0;
  }
}

// The compiler makes clones of functions, but not of templates.
#define FASTLOAD_IN_RANGE(Name, Order, T)                                  \
  FASTLOAD_CLONES void Name(const T* elements, int64_t n, T first, T last, \
                            uint8_t* passes) {                             \
    InRange<Order>(elements, n, first, last, passes);                      \
  }
FASTLOAD_IN_RANGE(InRangeOf, Signed, uint8_t)
FASTLOAD_IN_RANGE(InRangeOf, Signed, int8_t)
FASTLOAD_IN_RANGE(InRangeOf, Signed, uint16_t)
FASTLOAD_IN_RANGE(InRangeOf, Signed, int16_t)
FASTLOAD_IN_RANGE(InRangeOf, Signed, uint32_t)
FASTLOAD_IN_RANGE(InRangeOf, Signed, int32_t)
FASTLOAD_IN_RANGE(InRangeOf, Signed, int64_t)
FASTLOAD_IN_RANGE(InRangeOfOffset, Offset, int64_t)
FASTLOAD_IN_RANGE(InRangeOfFloat, Float, int32_t)
FASTLOAD_IN_RANGE(InRangeOfFloat, Float, int64_t)
#undef FASTLOAD_IN_RANGE

// Calls fn(order, element, in_range) with the dtype's types and functions. Returns false
// if the dtype has no keys.
template <typename Fn>
bool WithOrder(DType dtype, const Fn& fn) {
  const auto call = [&]<typename T>(T element) {
    fn(Signed{}, element, [](auto... args) { InRangeOf(args...); });
    return true;
  };
  const auto call_float = [&]<typename T>(T element) {
    fn(Float{}, element, [](auto... args) { InRangeOfFloat(args...); });
    return true;
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return call(uint8_t{});
    case DType::kInt8:
      return call(int8_t{});
    case DType::kUInt16:
      return call(uint16_t{});
    case DType::kInt16:
      return call(int16_t{});
    case DType::kUInt32:
      return call(uint32_t{});
    case DType::kInt32:
      return call(int32_t{});
    case DType::kInt64:
      return call(int64_t{});
    case DType::kUInt64:
      fn(Offset{}, int64_t{}, [](auto... args) { InRangeOfOffset(args...); });
      return true;
    case DType::kFloat32:
      return call_float(int32_t{});
    case DType::kFloat64:
      return call_float(int64_t{});
    case DType::kFloat16:
    case DType::kBFloat16:
      return false;
  }
  return false;
}

// Returns true if one of the ordered ranges contains the key.
bool Contains(const std::vector<KeyRange>& ranges, int64_t key) {
  const auto found =
      std::ranges::lower_bound(ranges, key, std::less<>(), &KeyRange::last);
  return found != ranges.end() && found->first <= key;
}

// Returns the first of the ordered ranges that does not end before the known keys.
auto FirstFrom(const std::vector<KeyRange>& ranges, const KeyRange& known) {
  return std::ranges::lower_bound(ranges, known.first, std::less<>(), &KeyRange::last);
}

bool Intersects(const std::vector<KeyRange>& ranges, const KeyRange& known) {
  const auto found = FirstFrom(ranges, known);
  return found != ranges.end() && found->first <= known.last;
}

bool Covers(const std::vector<KeyRange>& ranges, const KeyRange& known) {
  const auto found = FirstFrom(ranges, known);
  return found != ranges.end() && found->first <= known.first &&
         known.last <= found->last;
}

}  // namespace

std::optional<int64_t> KeyOf(DType dtype, const uint8_t* element) {
  int64_t key = 0;
  const bool known =
      WithOrder(dtype, [&]<typename Order, typename T>(Order, T bits, auto) {
        std::memcpy(&bits, element, sizeof(T));
        key = static_cast<int64_t>(Order::Key(bits));
      });
  return known ? std::optional(key) : std::nullopt;
}

void ValueTest::Run(DType dtype, const uint8_t* elements, int64_t n,
                    uint8_t* passes) const {
  std::memset(passes, 0, static_cast<size_t>(n));
  WithOrder(dtype, [&]<typename Order, typename T>(Order, T, const auto& in_range) {
    const auto* const bits = reinterpret_cast<const T*>(elements);
    if (ranges.size() > kFewRanges) {
      for (int64_t i = 0; i < n; ++i) {
        passes[i] = Contains(ranges, static_cast<int64_t>(Order::Key(bits[i]))) ? 1 : 0;
      }
      return;
    }
    constexpr auto kLeast = static_cast<int64_t>(std::numeric_limits<T>::min());
    constexpr auto kMost = static_cast<int64_t>(std::numeric_limits<T>::max());
    for (const KeyRange& range : ranges) {
      const int64_t first = std::max(range.first, kLeast);
      const int64_t last = std::min(range.last, kMost);
      if (first > last) continue;
      in_range(bits, n, static_cast<T>(first), static_cast<T>(last), passes);
    }
  });
}

Verdict ValueTest::Of(const KnownValues& known) const {
  bool some = known.nulls && nulls;
  bool all = !known.nulls || nulls;
  for (const KeyRange& keys : known.keys) {
    some = some || Intersects(ranges, keys);
    all = all && Covers(ranges, keys);
  }
  if (!some) return Verdict::kNone;
  return all ? Verdict::kAll : Verdict::kSome;
}

}  // namespace fastload
