#include "fastload/base/gather.h"

#include <algorithm>
#include <cstring>

#include "fastload/base/prefetch.h"
#include "fastload/base/stream_copy.h"

namespace fastload {
namespace {

template <int64_t kBytes>
struct Bytes {
  uint8_t bytes[kBytes];
};

template <typename T>
void ScatterPacked(const uint8_t* rows, const uint32_t* slots, int64_t count,
                   uint8_t* to) {
  const T* from = reinterpret_cast<const T*>(rows);
  T* slot = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) slot[slots[i]] = from[i];
}

template <typename T, typename Element, typename OnLine>
void StoreFor(NextRead next, T* out, int64_t count, const Element& element,
              const OnLine& on_line) {
  if (next == NextRead::kLate) {
    StoreStreamPast(out, count, element, on_line);
  } else {
    StoreStream(out, count, element, on_line);
  }
}

template <typename T>
void GatherPacked(const uint8_t* bucket, const uint16_t* index, int64_t count,
                  uint8_t* out, const uint8_t* ahead, NextRead next) {
  const T* from = reinterpret_cast<const T*>(bucket);
  const T* later = reinterpret_cast<const T*>(ahead == nullptr ? bucket : ahead);
  StoreFor(
      next, reinterpret_cast<T*>(out), count, [=](int64_t i) { return from[index[i]]; },
      [=](int64_t i) { __builtin_prefetch(later + i); });
}

template <typename T>
void GatherStrided(const uint8_t* bucket, const uint16_t* index, int64_t count,
                   uint8_t* out, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * stride, bucket + index[i] * sizeof(T), sizeof(T));
  }
}

template <typename Code, typename T>
void GatherPackedCodes(const Code* codes, const uint16_t* index, int64_t count,
                       const T* table, T* out, const Code* ahead, NextRead next) {
  const Code* later = ahead == nullptr ? codes : ahead;
  StoreFor(
      next, out, count, [=](int64_t i) { return table[codes[index[i]]]; },
      [=](int64_t i) { __builtin_prefetch(later + i); });
}

template <typename Code, typename T>
void GatherStridedCodes(const uint8_t* codes, int64_t pitch, const uint16_t* index,
                        int64_t count, const T* table, uint8_t* out, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    Code code;
    std::memcpy(&code, codes + index[i] * pitch, sizeof(code));
    std::memcpy(out + i * stride, table + code, sizeof(T));
  }
}

// Calls fn with an unsigned integer of `code_bytes` bytes and a larger one of `width`
// bytes.
template <typename Fn>
void WithCode(int64_t code_bytes, int64_t width, const Fn& fn) {
  switch (width * 8 + code_bytes) {
    case 2 * 8 + 1:
      return fn(uint8_t{}, uint16_t{});
    case 4 * 8 + 1:
      return fn(uint8_t{}, uint32_t{});
    case 4 * 8 + 2:
      return fn(uint16_t{}, uint32_t{});
    case 8 * 8 + 1:
      return fn(uint8_t{}, uint64_t{});
    case 8 * 8 + 2:
      return fn(uint16_t{}, uint64_t{});
    default:
      return fn(uint32_t{}, uint64_t{});
  }
}

}  // namespace

void GatherCodes(const uint8_t* codes, int64_t code_bytes, const uint16_t* index,
                 int64_t count, const uint8_t* table, int64_t width, uint8_t* out,
                 const uint8_t* ahead, NextRead next) {
  WithCode(code_bytes, width, [&]<typename Code, typename T>(Code, T) {
    GatherPackedCodes(reinterpret_cast<const Code*>(codes), index, count,
                      reinterpret_cast<const T*>(table), reinterpret_cast<T*>(out),
                      reinterpret_cast<const Code*>(ahead), next);
  });
}

void GatherRecordCodes(const uint8_t* codes, int64_t pitch, int64_t code_bytes,
                       const uint16_t* index, int64_t count, const uint8_t* table,
                       int64_t width, uint8_t* out, int64_t stride) {
  WithCode(code_bytes, width, [&]<typename Code, typename T>(Code, T) {
    GatherStridedCodes<Code>(codes, pitch, index, count,
                             reinterpret_cast<const T*>(table), out, stride);
  });
}

void Scatter(const uint8_t* rows, int64_t width, const uint32_t* slots, int64_t count,
             uint8_t* to) {
  switch (width) {
    case 1:
      return ScatterPacked<uint8_t>(rows, slots, count, to);
    case 2:
      return ScatterPacked<uint16_t>(rows, slots, count, to);
    case 4:
      return ScatterPacked<uint32_t>(rows, slots, count, to);
    case 8:
      return ScatterPacked<uint64_t>(rows, slots, count, to);
    case 16:
      return ScatterPacked<Bytes<16>>(rows, slots, count, to);
    case 32:
      return ScatterPacked<Bytes<32>>(rows, slots, count, to);
    case kCacheLine:
      return ScatterPacked<Bytes<kCacheLine>>(rows, slots, count, to);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + slots[i] * width, rows + i * width, static_cast<size_t>(width));
      }
  }
}

void Gather(const uint8_t* bucket, int64_t width, const uint16_t* index, int64_t count,
            uint8_t* out, int64_t stride, const uint8_t* ahead, NextRead next) {
  if (width == stride) {
    switch (width) {
      case 1:
        return GatherPacked<uint8_t>(bucket, index, count, out, ahead, next);
      case 2:
        return GatherPacked<uint16_t>(bucket, index, count, out, ahead, next);
      case 4:
        return GatherPacked<uint32_t>(bucket, index, count, out, ahead, next);
      case 8:
        return GatherPacked<uint64_t>(bucket, index, count, out, ahead, next);
      default:
        break;
    }
  }
  switch (width) {
    case 1:
      return GatherStrided<uint8_t>(bucket, index, count, out, stride);
    case 2:
      return GatherStrided<uint16_t>(bucket, index, count, out, stride);
    case 4:
      return GatherStrided<uint32_t>(bucket, index, count, out, stride);
    case 8:
      return GatherStrided<uint64_t>(bucket, index, count, out, stride);
    case kCacheLine:
      return GatherStrided<Bytes<kCacheLine>>(bucket, index, count, out, stride);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(out + i * stride, bucket + index[i] * width,
                    static_cast<size_t>(width));
      }
  }
}

}  // namespace fastload
