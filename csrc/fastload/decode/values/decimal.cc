#include "fastload/decode/values/decimal.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "arrow/util/value_parsing.h"

namespace fastload {

UnscaledInteger::UnscaledInteger(int64_t value) : negative_(value < 0) {
  limbs_[0] =
      negative_ ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
}

UnscaledInteger UnscaledInteger::FromBigEndian(const uint8_t* data, int size) {
  UnscaledInteger integer;
  integer.negative_ = (data[0] & 0x80) != 0;
  std::array<uint8_t, kMaxDecimalBytes> bytes;
  bytes.fill(integer.negative_ ? 0xFF : 0);
  for (int i = 0; i < size; ++i) bytes[i] = data[size - 1 - i];
  std::memcpy(integer.limbs_, bytes.data(), bytes.size());
  if (integer.negative_) {
    bool carry = true;
    for (uint64_t& limb : integer.limbs_) {
      limb = ~limb + (carry ? 1 : 0);
      carry = carry && limb == 0;
    }
  }
  return integer;
}

std::optional<int64_t> UnscaledInteger::ToInt64() const {
  for (int i = 1; i < kLimbs; ++i) {
    if (limbs_[i] != 0) return std::nullopt;
  }
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (limbs_[0] > kMost + (negative_ ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(negative_ ? ~limbs_[0] + 1 : limbs_[0]);
}

char* UnscaledInteger::WriteDigits(char* end) const {
  // Writes nine digits at a time, from the least significant end.
  constexpr uint64_t kChunk = 1'000'000'000;
  constexpr int kChunkDigits = 9;
  std::array<uint32_t, 2 * kLimbs> words;
  std::memcpy(words.data(), limbs_, sizeof(limbs_));
  char* begin = end;
  int top = static_cast<int>(words.size());
  while (true) {
    while (top > 0 && words[top - 1] == 0) --top;
    if (top == 0) break;
    uint64_t rest = 0;
    for (int i = top - 1; i >= 0; --i) {
      const uint64_t part = rest << 32 | words[i];
      words[i] = static_cast<uint32_t>(part / kChunk);
      rest = part % kChunk;
    }
    for (int i = 0; i < kChunkDigits; ++i) {
      *--begin = static_cast<char>('0' + rest % 10);
      rest /= 10;
    }
  }
  while (begin < end && *begin == '0') ++begin;
  if (begin == end) *--begin = '0';
  return begin;
}

double UnscaledInteger::ToDouble(int scale) const {
  constexpr int kExponent = 16;
  std::array<char, kMostDigits + kExponent> text;
  char* const end = text.data() + kMostDigits;
  const char* const begin = WriteDigits(end);
  *end = 'e';
  const auto written = std::to_chars(end + 1, text.data() + text.size(), -scale);
  double magnitude = 0;
  // Arrow's parser, because not every standard library has std::from_chars for doubles.
  if (!arrow::internal::StringToFloat(begin, static_cast<size_t>(written.ptr - begin),
                                      '.', &magnitude)) {
    magnitude = scale > 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  return negative_ ? -magnitude : magnitude;
}

double DecimalScale::Apply(const UnscaledInteger& integer) const {
  const auto narrow = integer.ToInt64();
  return narrow.has_value() ? Apply(*narrow) : integer.ToDouble(scale_);
}

std::string UnscaledInteger::ToString() const {
  std::array<char, kMostDigits> text;
  char* const end = text.data() + text.size();
  std::string digits(WriteDigits(end), end);
  if (negative_) digits.insert(digits.begin(), '-');
  return digits;
}

}  // namespace fastload
