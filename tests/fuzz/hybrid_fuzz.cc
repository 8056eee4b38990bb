// Fuzzer of runs of levels, of dictionary indices and of bits: every way of decoding
// gives the values of a decoder that goes value by value, or both find an end.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "checked.h"
#include "fastload/decode/pages/hybrid.h"
#include "fastload/decode/pages/level_stream.h"
#include "fuzzer/FuzzedDataProvider.h"

namespace fastload::testing {
namespace {

constexpr size_t kMostValues = 1 << 13;

// Returns all values of the bytes, or the first kMostValues; sets `*refused` if a run
// can't be decoded.
std::vector<uint32_t> Decoded(const std::vector<uint8_t>& bytes, int width,
                              bool* refused) {
  std::vector<uint32_t> values;
  size_t at = 0;
  *refused = false;
  while (at < bytes.size() && values.size() < kMostValues) {
    uint64_t header = 0;
    for (int shift = 0;; shift += 7) {
      if (at == bytes.size() || shift == 35) return *refused = true, values;
      header |= static_cast<uint64_t>(bytes[at] & 0x7F) << shift;
      if ((bytes[at++] & 0x80) == 0) break;
    }
    if (header > UINT32_MAX) return *refused = true, values;
    const uint64_t length = header >> 1;
    if ((header & 1) == 0) {
      const auto size = static_cast<size_t>((width + 7) / 8);
      if (bytes.size() - at < size) return *refused = true, values;
      uint32_t value = 0;
      for (size_t i = 0; i < size; ++i) value |= uint32_t{bytes[at + i]} << (8 * i);
      at += size;
      const auto room = kMostValues - values.size();
      values.insert(values.end(), std::min<uint64_t>(length, room), value);
      continue;
    }
    const uint64_t size =
        std::min<uint64_t>(length * static_cast<uint64_t>(width), bytes.size() - at);
    uint64_t count = length * 8;
    if (width > 0) count = std::min(count, size * 8 / static_cast<uint64_t>(width));
    for (uint64_t i = 0; i < count && values.size() < kMostValues; ++i) {
      uint32_t value = 0;
      for (int b = 0; b < width; ++b) {
        const uint64_t bit = i * static_cast<uint64_t>(width) + static_cast<uint64_t>(b);
        value |= static_cast<uint32_t>(bytes[at + bit / 8] >> (bit % 8) & 1) << b;
      }
      values.push_back(value);
    }
    at += size;
  }
  return values;
}

class Comparison {
 public:
  Comparison(const std::vector<uint8_t>& bytes, int width) : width_(width) {
    values_ = Decoded(bytes, width, &refused_);
    decoder_.Reset(bytes.data(), static_cast<int64_t>(bytes.size()), width);
  }

  // Returns false at the end.
  bool Step(FuzzedDataProvider* input) {
    const auto left = static_cast<int64_t>(values_.size() - at_);
    const auto n = input->ConsumeIntegralInRange<int64_t>(1, 2000);
    const auto kind = input->ConsumeIntegralInRange<int>(0, 6);
    const bool whole = values_.size() >= kMostValues;
    if (n > left && whole) return false;
    Status status;
    std::vector<uint32_t> out(static_cast<size_t>(n));
    switch (kind) {
      case 0:
        status = decoder_.Skip(n);
        break;
      case 1: {
        const auto run = decoder_.Peek();
        if (!run.ok()) {
          Expect(refused_ && left == 0, "a run refused that can be told");
          return false;
        }
        Expect(run->length <= left || whole, "the length of a run");
        if (run->length == 0) return false;
        for (int64_t i = 0; run->repeated && i < std::min(run->length, left); ++i) {
          Expect(Value(i) == run->value, "the value of a run");
        }
        return true;
      }
      case 2: {
        constexpr uint32_t kSize = 300;
        std::vector<uint16_t> dictionary(kSize);
        for (uint32_t i = 0; i < kSize; ++i) dictionary[i] = static_cast<uint16_t>(7 * i);
        std::vector<uint16_t> found(static_cast<size_t>(n));
        status = decoder_.Lookup(dictionary.data(), int64_t{kSize}, n, found.data());
        if (!status.ok()) break;
        for (int64_t i = 0; i < n; ++i) {
          Expect(i < left && Value(i) < kSize && found[i] == 7 * Value(i), "a look-up");
        }
        break;
      }
      case 3:
      case 4:
      case 5:
        if (width_ != 1) return true;
        if (kind == 3) {
          std::vector<uint8_t> bits(static_cast<size_t>(n));
          status = decoder_.DecodeBits(n, bits.data());
          for (int64_t i = 0; status.ok() && i < n; ++i) {
            Expect(i < left && bits[i] == Bit(i), "a bit");
          }
        } else if (kind == 4) {
          std::vector<uint16_t> zeros(static_cast<size_t>(n));
          const auto found = decoder_.FindZeros(n, zeros.data());
          status = found.status();
          int64_t next = 0;
          for (int64_t i = 0; status.ok() && i < n; ++i) {
            const bool zero = next < *found && zeros[static_cast<size_t>(next)] == i;
            Expect(i < left && zero == (Bit(i) == 0), "a zero");
            next += zero ? 1 : 0;
          }
          Expect(!status.ok() || next == *found, "the number of zeros");
        } else {
          return SkipRows(input, left);
        }
        break;
      default:
        status = decoder_.Decode(n, out.data());
        for (int64_t i = 0; status.ok() && i < n; ++i) {
          Expect(i < left && out[i] == Value(i), "a value");
        }
    }
    if (!status.ok()) {
      // An index beyond the dictionary is an error of its own.
      Expect(left < n || kind == 2, "an end that is none");
      return false;
    }
    Expect(n <= left, "values behind the end");
    at_ += static_cast<size_t>(n);
    return true;
  }

 private:
  uint32_t Value(int64_t i) const { return values_[at_ + static_cast<size_t>(i)]; }
  // Runs of equal bits are stored in bytes, which may hold more than a bit: only the
  // lowest bit counts.
  uint32_t Bit(int64_t i) const { return Value(i) & 1; }

  bool SkipRows(FuzzedDataProvider* input, int64_t left) {
    const auto n = input->ConsumeIntegralInRange<int64_t>(1, 40);
    const auto most = input->ConsumeIntegralInRange<int64_t>(0, 50);
    if (n * most > left) return true;  // asked for rows that exist
    const auto rows = decoder_.SkipEqualRows(n, most);
    if (!rows.ok()) return false;
    Expect(*rows >= 0 && *rows <= most, "the number of rows passed over");
    for (int64_t row = 0; row < *rows; ++row) {
      for (int64_t i = 0; i < n; ++i) {
        Expect(Bit(row * n + i) == (i > 0 ? 1 : 0), "a row passed over");
      }
    }
    at_ += static_cast<size_t>(*rows * n);
    return true;
  }

  const int width_;
  std::vector<uint32_t> values_;
  bool refused_ = false;
  size_t at_ = 0;
  HybridDecoder decoder_;
};

// Decodes levels as a page holds levels, and expects no level beyond the maximum. Arrow's
// decoder of the legacy encoding throws.
Status DecodeLevels(FuzzedDataProvider* input) {
  const auto most = input->ConsumeIntegralInRange<int16_t>(1, 200);
  const auto levels = input->ConsumeIntegralInRange<int64_t>(0, 5000);
  const bool second = input->ConsumeBool();
  const bool legacy = input->ConsumeIntegralInRange<int>(0, 7) == 0;
  const auto bytes = input->ConsumeRemainingBytes<uint8_t>();
  LevelStream stream(most);
  const auto size = static_cast<int64_t>(bytes.size());
  if (second) {
    ARROW_RETURN_NOT_OK(stream.SetV2(bytes.data(), size));
  } else {
    const auto encoding = legacy ? parquet::Encoding::BIT_PACKED : parquet::Encoding::RLE;
    ARROW_ASSIGN_OR_RAISE(const int64_t taken,
                          stream.SetV1(encoding, levels, bytes.data(), size));
    // In the legacy encoding, the caller checks that the bytes exist.
    Expect(taken >= 0 && (legacy || taken <= size), "the bytes of levels");
    if (taken > size) return Status::OK();
  }
  std::vector<uint8_t> out(static_cast<size_t>(levels));
  ARROW_RETURN_NOT_OK(stream.Decode(levels, out.data()));
  for (const uint8_t level : out) Expect(level <= most, "a level beyond the maximum");
  return Status::OK();
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fastload::testing;
  FuzzedDataProvider input(data, size);
  if (input.ConsumeBool()) {
    (void)fastload::CatchParquet([&] { return DecodeLevels(&input); });
    return 0;
  }
  const int width = input.ConsumeBool() ? 1 : input.ConsumeIntegralInRange<int>(0, 32);
  const std::string steps = input.ConsumeRandomLengthString(64);
  // the decoder borrows these bytes
  const auto bytes = input.ConsumeRemainingBytes<uint8_t>();
  Comparison comparison(bytes, width);
  FuzzedDataProvider orders(reinterpret_cast<const uint8_t*>(steps.data()), steps.size());
  while (orders.remaining_bytes() > 0 && comparison.Step(&orders)) {
  }
  return 0;
}
