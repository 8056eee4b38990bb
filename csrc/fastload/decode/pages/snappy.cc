#include "fastload/decode/pages/snappy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace fastload {
namespace {

static_assert(std::endian::native == std::endian::little);

// The most input bytes that one step of the fast loop reads: a tag, and a literal of up
// to 60 bytes.
constexpr ptrdiff_t kReadAhead = 64;

// The meaning of a tag: bytes to copy, bits 8 to 10 of the distance, and bytes of the
// number that follows the tag.
struct Tag {
  uint32_t length : 8;
  uint32_t trailer : 8;
  uint32_t distance : 16;
};

constexpr std::array<Tag, 256> MakeTags() {
  std::array<Tag, 256> tags{};
  for (uint32_t byte = 0; byte < tags.size(); ++byte) {
    Tag& tag = tags[byte];
    tag.length = (byte >> 2) + 1;
    switch (byte & 3) {
      case 1:
        tag.length = ((byte >> 2) & 7) + 4;
        tag.distance = (byte >> 5) << 8;
        tag.trailer = 1;
        break;
      case 2:
        tag.trailer = 2;
        break;
      case 3:
        tag.trailer = 4;
        break;
      default:  // literal
        if (tag.length > 60) tag.trailer = tag.length - 60;
    }
  }
  return tags;
}

constexpr std::array<Tag, 256> kTags = MakeTags();
constexpr std::array<uint32_t, 5> kTrailerMasks = {0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF};

template <size_t kBytes>
void Copy(uint8_t* to, const uint8_t* from) {
  std::array<uint8_t, kBytes> word;
  std::memcpy(word.data(), from, kBytes);
  std::memcpy(to, word.data(), kBytes);
}

template <size_t kBytes>
void Store(uint8_t* to, uint64_t word) {
  std::memcpy(to, &word, kBytes);
}

// Copies up to 64 bytes in copies of constant sizes, which may write up to 63 bytes
// behind the last byte.
void CopyAtMost64(uint8_t* to, const uint8_t* from, size_t bytes) {
  Copy<16>(to, from);
  if (bytes <= 16) return;
  Copy<16>(to + 16, from + 16);
  if (bytes <= 32) return;
  Copy<16>(to + 32, from + 32);
  Copy<16>(to + 48, from + 48);
}

// For a distance below 8, the factor that repeats the lowest `distance` bytes of a word
// through the word.
constexpr std::array<uint64_t, 8> MakeRepeats() {
  std::array<uint64_t, 8> repeats{};
  for (size_t distance = 1; distance < repeats.size(); ++distance) {
    for (size_t byte = 0; byte < 8; byte += distance) {
      repeats[distance] |= uint64_t{1} << (8 * byte);
    }
  }
  return repeats;
}

constexpr std::array<uint64_t, 8> kRepeats = MakeRepeats();

// The bytes by which one word of a pattern follows another: the largest multiple of the
// distance that a word holds.
constexpr std::array<uint8_t, 8> kPatternSteps = {8, 8, 8, 6, 8, 5, 6, 7};

// Repeats the `distance` (below 8) bytes before `to`. The pattern is in a register, so
// that no load waits for the store before it.
void RepeatBack(uint8_t* to, size_t distance, size_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, to - distance, sizeof(word));
  word &= (uint64_t{1} << (8 * distance)) - 1;
  word *= kRepeats[distance];
  const size_t step = kPatternSteps[distance];
  Store<8>(to, word);
  for (size_t i = step; i < bytes; i += step) Store<8>(to + i, word);
}

// Repeats the `distance` bytes before `to`; copies up to 64 bytes.
void CopyBack(uint8_t* to, size_t distance, size_t bytes) {
  const uint8_t* from = to - distance;
  if (distance >= 16) {
    CopyAtMost64(to, from, bytes);
  } else if (distance >= 8) {
    for (size_t i = 0; i < bytes; i += 8) Copy<8>(to + i, from + i);
  } else {
    RepeatBack(to, distance, bytes);
  }
}

// Reads the size at the front of the bytes. Returns the end of the size, or null if the
// size does not end.
const uint8_t* ReadSize(std::span<const uint8_t> compressed, uint64_t* size) {
  const size_t most = std::min<size_t>(compressed.size(), 5);
  *size = 0;
  for (size_t i = 0; i < most; ++i) {
    *size |= static_cast<uint64_t>(compressed[i] & 0x7F) << (7 * i);
    if (compressed[i] < 0x80) return compressed.data() + i + 1;
  }
  return nullptr;
}

// The state of the decoder: the rest of the input and of the output.
struct Decoder {
  const uint8_t* in;
  const uint8_t* const in_end;
  uint8_t* const out_begin;
  uint8_t* out;
  uint8_t* const out_end;

  bool Fits(size_t bytes) const { return bytes <= static_cast<size_t>(out_end - out); }

  // Decodes a literal of up to 4 bytes and the copy behind the literal, if these come
  // next; numbers compress to such pairs. One load holds both elements, so that the start
  // of the next element is known after a few instructions. Reads 8 bytes of input. Sets
  // `*done` if there was a pair.
  bool StepPair(bool* done) {
    uint64_t word = 0;
    std::memcpy(&word, in, sizeof(word));
    const uint64_t literal = (word >> 2 & 63) + 1;
    const uint64_t rest = word >> ((8 * literal + 8) & 63);
    // 1 or 2: a copy, whose tag is followed by as many bytes
    const uint64_t kind = rest & 3;
    *done = (word & 3) == 0 && literal <= 4 && kind - 1 < 2;
    if (!*done) return true;
    const Tag tag = kTags[rest & 0xFF];
    const size_t distance = tag.distance + (rest >> 8 & kTrailerMasks[kind]);
    const size_t length = tag.length;
    if (!Fits(literal + length)) return false;
    Store<8>(out, word >> 8);
    out += literal;
    if (distance == 0 || distance > static_cast<size_t>(out - out_begin)) return false;
    CopyBack(out, distance, length);
    out += length;
    in += literal + kind + 2;
    return true;
  }

  // Decodes the next element. With `kFast`, kReadAhead bytes of input must be readable.
  template <bool kFast>
  bool Step() {
    const uint8_t byte = *in++;
    if constexpr (kFast) {
      // Most elements are short literals, whose length needs no look-up.
      const size_t literal = (size_t{byte} >> 2) + 1;
      if ((byte & 3) == 0 && literal <= 60) {
        if (!Fits(literal)) return false;
        CopyAtMost64(out, in, literal);
        in += literal;
        out += literal;
        return true;
      }
    }
    const Tag tag = kTags[byte];
    size_t length = tag.length;
    uint32_t trailer = 0;
    if constexpr (kFast) {
      std::memcpy(&trailer, in, sizeof(trailer));
      trailer &= kTrailerMasks[tag.trailer];
    } else {
      if (tag.trailer > in_end - in) return false;
      std::memcpy(&trailer, in, tag.trailer);
    }
    in += tag.trailer;
    if ((byte & 3) == 0) {
      // The addition has 32 bits, as in Snappy's own decoder: the largest length
      // overflows to 0.
      if (tag.trailer > 0) length = trailer + 1;
      if (!Fits(length) || length > static_cast<size_t>(in_end - in)) return false;
      std::memcpy(out, in, length);
      in += length;
    } else {
      const size_t distance = size_t{tag.distance} + trailer;
      const auto behind = static_cast<size_t>(out - out_begin);
      if (distance == 0 || distance > behind || !Fits(length)) return false;
      CopyBack(out, distance, length);
    }
    out += length;
    return true;
  }
};

}  // namespace

std::optional<int64_t> SnappySize(std::span<const uint8_t> compressed) {
  uint64_t size = 0;
  if (ReadSize(compressed, &size) == nullptr) return std::nullopt;
  if (size > compressed.size() * kSnappyExpansion) return std::nullopt;
  return static_cast<int64_t>(size);
}

bool SnappyDecompress(std::span<const uint8_t> compressed, uint8_t* out, int64_t size) {
  uint64_t said = 0;
  const uint8_t* in = ReadSize(compressed, &said);
  if (in == nullptr || said != static_cast<uint64_t>(size)) return false;
  Decoder decoder{.in = in,
                  .in_end = compressed.data() + compressed.size(),
                  .out_begin = out,
                  .out = out,
                  .out_end = out + size};
  while (decoder.in_end - decoder.in > kReadAhead) {
    bool pair = false;
    if (!decoder.StepPair(&pair)) return false;
    if (!pair && !decoder.Step<true>()) return false;
  }
  while (decoder.in < decoder.in_end) {
    if (!decoder.Step<false>()) return false;
  }
  return decoder.out == decoder.out_end;
}

}  // namespace fastload
