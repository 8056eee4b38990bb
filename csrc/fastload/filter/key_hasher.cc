#include "fastload/filter/key_hasher.h"

#include <array>
#include <limits>
#include <utility>

#include "fastload/base/hash.h"
#include "fastload/decode/values/key_encoder.h"
#include "fastload/decode/values/vocabulary.h"

namespace fastload {
namespace {

// The format hashes a value's bytes in PLAIN encoding by XXH64 with this seed.
constexpr uint64_t kSeed = 0;

template <typename T>
uint64_t HashOf(T value) {
  return Hash64(&value, sizeof(value), kSeed);
}

constexpr bool IsIntegerType(DType dtype) {
  return dtype >= DType::kUInt8 && dtype <= DType::kInt64;
}

template <typename T>
constexpr std::pair<int64_t, int64_t> Limits() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// Returns the least and the most value of a stored integer.
std::pair<int64_t, int64_t> LimitsOf(Stored stored) {
  switch (stored) {
    case Stored::kInt8:
      return Limits<int8_t>();
    case Stored::kUInt8:
      return Limits<uint8_t>();
    case Stored::kInt16:
      return Limits<int16_t>();
    case Stored::kUInt16:
      return Limits<uint16_t>();
    case Stored::kInt32:
      return Limits<int32_t>();
    case Stored::kUInt32:
      return Limits<uint32_t>();
    default:
      return Limits<int64_t>();
  }
}

}  // namespace

std::optional<KeyHasher> KeyHasher::Make(const parquet::ColumnDescriptor& descr,
                                         const ColumnSpec& spec, int32_t file) {
  KeyHasher hasher(descr, spec);
  if (spec.vocabulary != nullptr) {
    const auto encoder = KeyEncoder::Make(descr, spec);
    hasher.words_ = encoder.ok() && encoder->of_bytes() && spec.vocabulary->of_bytes();
    return hasher.words_ ? std::optional(hasher) : std::nullopt;
  }
  const auto stored = StoredOf(descr);
  if (!stored.ok() || spec.hash_buckets != 0 || spec.Multiplier(file) != 1) {
    return std::nullopt;
  }
  hasher.stored_ = *stored;
  switch (*stored) {
    case Stored::kFloat32:
      return spec.dtype == DType::kFloat32 ? std::optional(hasher) : std::nullopt;
    case Stored::kFloat64:
      return spec.dtype == DType::kFloat64 ? std::optional(hasher) : std::nullopt;
    case Stored::kDecimal:
      return spec.unscaled && spec.dtype == DType::kInt64 ? std::optional(hasher)
                                                          : std::nullopt;
    case Stored::kInt96:
      return std::nullopt;
    default:
      return IsInteger(*stored) && IsIntegerType(spec.dtype) ? std::optional(hasher)
                                                             : std::nullopt;
  }
}

std::optional<uint64_t> KeyHasher::Hash(int64_t key) const {
  if (words_) {
    const auto& words = spec_.vocabulary->bytes();
    if (key < 0 || key >= static_cast<int64_t>(words.size())) return std::nullopt;
    const std::string& word = words[static_cast<size_t>(key)];
    return Hash64(word.data(), word.size(), kSeed);
  }
  switch (stored_) {
    case Stored::kFloat32:
      if (key != static_cast<int32_t>(key)) return std::nullopt;
      return HashFloat<int32_t>(static_cast<int32_t>(key), 0x7F800000);
    case Stored::kFloat64:
      return HashFloat<int64_t>(key, 0x7FF0000000000000);
    case Stored::kDecimal:
      return HashDecimal(key);
    default:
      return HashInteger(key);
  }
}

std::optional<uint64_t> KeyHasher::HashInteger(int64_t key) const {
  if (spec_.dtype == DType::kUInt64) {
    const auto value = static_cast<uint64_t>(key) ^ (uint64_t{1} << 63);
    if (stored_ == Stored::kUInt64) return HashOf(value);
    if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    key = static_cast<int64_t>(value);
  } else if (stored_ == Stored::kUInt64) {
    return std::nullopt;
  }
  const auto [least, most] = LimitsOf(stored_);
  if (key < least || key > most) return std::nullopt;
  if (descr_.physical_type() == parquet::Type::INT64) return HashOf(key);
  return HashOf(static_cast<uint32_t>(key));
}

std::optional<uint64_t> KeyHasher::HashDecimal(int64_t unscaled) const {
  switch (descr_.physical_type()) {
    case parquet::Type::INT32: {
      const auto [least, most] = Limits<int32_t>();
      if (unscaled < least || unscaled > most) return std::nullopt;
      return HashOf(static_cast<int32_t>(unscaled));
    }
    case parquet::Type::INT64:
      return HashOf(unscaled);
    case parquet::Type::FIXED_LEN_BYTE_ARRAY: {
      std::array<char, 16> bytes{};  // most significant byte first
      const int width = descr_.type_length();
      if (width <= 0 || width > static_cast<int>(bytes.size())) return std::nullopt;
      int64_t rest = unscaled;
      for (int i = width - 1; i >= 0; --i) {
        bytes[static_cast<size_t>(i)] = static_cast<char>(rest);
        rest >>= 8;  // keeps the sign
      }
      const bool fits =
          width >= 8 || (unscaled >> (8 * width - 1)) == (unscaled < 0 ? -1 : 0);
      if (!fits) return std::nullopt;
      return Hash64(bytes.data(), static_cast<size_t>(width), kSeed);
    }
    default:  // bytes of any length, of which several may be the same number
      return std::nullopt;
  }
}

template <typename Bits>
std::optional<uint64_t> KeyHasher::HashFloat(Bits key, Bits infinity) {
  // Writers may hash one zero for the other, and there are many NaNs.
  const bool zero = key == 0 || key == -1;
  if (zero || key > infinity || key < -infinity - 1) return std::nullopt;
  return HashOf(key >= 0 ? key : key ^ std::numeric_limits<Bits>::max());
}

}  // namespace fastload
