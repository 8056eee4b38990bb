#include "fastload/base/gather.h"

#include <cstring>

#include "fastload/base/clones.h"
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

template <typename T, typename Element>
void StoreFor(NextRead next, T* out, int64_t count, const Element& element) {
  if (next == NextRead::kLate) {
    StoreStreamPast(out, count, element);
  } else {
    StoreStream(out, count, element);
  }
}

template <typename T, typename Index>
void GatherPacked(const uint8_t* rows, const Index* index, int64_t count, uint8_t* out,
                  NextRead next) {
  const T* from = reinterpret_cast<const T*>(rows);
  StoreFor(next, reinterpret_cast<T*>(out), count,
           [=](int64_t i) { return from[index[i]]; });
}

template <typename T, typename Index>
void GatherStrided(const uint8_t* rows, const Index* index, int64_t count, uint8_t* out,
                   int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * stride, rows + index[i] * sizeof(T), sizeof(T));
  }
}

template <typename Code, typename T>
void GatherStridedCodes(const uint8_t* codes, int64_t pitch, const uint32_t* index,
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

#ifdef FASTLOAD_AVX512
// Gathers elements of type T as far as whole vectors go, and returns their number. A
// vector of elements that come from two vectors of rows is one permutation.
template <typename T>
FASTLOAD_INLINE int64_t GatherVectors(const uint8_t* rows, const uint16_t* index,
                                      int64_t count, uint8_t* out) {
  constexpr int64_t kBytes = kGatherNearSlack / 2;
  constexpr int64_t kLanes = kBytes / static_cast<int64_t>(sizeof(T));
  using Vector __attribute__((vector_size(kBytes))) = T;
  using Places __attribute__((vector_size(kLanes * sizeof(uint16_t)))) = uint16_t;
  const T* const from = reinterpret_cast<const T*>(rows);
  T* const to = reinterpret_cast<T*>(out);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const uint16_t first = index[i];
    if (index[i + kLanes - 1] - first >= 2 * kLanes) {
      for (int64_t j = i; j < i + kLanes; ++j) to[j] = from[index[j]];
      continue;
    }
    Places places;
    Vector low;
    Vector high;
    std::memcpy(&places, index + i, sizeof(places));
    std::memcpy(&low, from + first, sizeof(low));
    std::memcpy(&high, from + first + kLanes, sizeof(high));
    const Vector lanes = __builtin_convertvector(places - first, Vector);
    const Vector found = __builtin_shuffle(low, high, lanes);
    std::memcpy(to + i, &found, sizeof(found));
  }
  return i;
}

FASTLOAD_AVX512 int64_t GatherWhole(const uint8_t* rows, int64_t width,
                                    const uint16_t* index, int64_t count, uint8_t* out) {
  switch (width) {
    case 2:
      return GatherVectors<uint16_t>(rows, index, count, out);
    case 4:
      return GatherVectors<uint32_t>(rows, index, count, out);
    case 8:
      return GatherVectors<uint64_t>(rows, index, count, out);
    default:
      return 0;
  }
}
#endif

FASTLOAD_OTHERS int64_t GatherWhole(const uint8_t* /*rows*/, int64_t /*width*/,
                                    const uint16_t* /*index*/, int64_t /*count*/,
                                    uint8_t* /*out*/) {
  return 0;
}

}  // namespace

void GatherNear(const uint8_t* rows, int64_t width, const uint16_t* index, int64_t count,
                uint8_t* out, int64_t stride) {
  const int64_t done = stride == width ? GatherWhole(rows, width, index, count, out) : 0;
  Gather(rows, width, index + done, count - done, out + done * stride, stride);
}

template <typename Index>
void GatherCodes(const uint8_t* codes, int64_t code_bytes, const Index* index,
                 int64_t count, const uint8_t* table, int64_t width, uint8_t* out,
                 NextRead next) {
  WithCode(code_bytes, width, [&]<typename Code, typename T>(Code, T) {
    const auto* of = reinterpret_cast<const Code*>(codes);
    const T* entries = reinterpret_cast<const T*>(table);
    StoreFor(next, reinterpret_cast<T*>(out), count,
             [=](int64_t i) { return entries[of[index[i]]]; });
  });
}

void GatherRecordCodes(const uint8_t* codes, int64_t pitch, int64_t code_bytes,
                       const uint32_t* index, int64_t count, const uint8_t* table,
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
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + slots[i] * width, rows + i * width, static_cast<size_t>(width));
      }
  }
}

template <typename Index>
void Gather(const uint8_t* rows, int64_t width, const Index* index, int64_t count,
            uint8_t* out, int64_t stride, NextRead next) {
  if (width == stride) {
    switch (width) {
      case 1:
        return GatherPacked<uint8_t>(rows, index, count, out, next);
      case 2:
        return GatherPacked<uint16_t>(rows, index, count, out, next);
      case 4:
        return GatherPacked<uint32_t>(rows, index, count, out, next);
      case 8:
        return GatherPacked<uint64_t>(rows, index, count, out, next);
      default:
        break;
    }
  }
  switch (width) {
    case 1:
      return GatherStrided<uint8_t>(rows, index, count, out, stride);
    case 2:
      return GatherStrided<uint16_t>(rows, index, count, out, stride);
    case 4:
      return GatherStrided<uint32_t>(rows, index, count, out, stride);
    case 8:
      return GatherStrided<uint64_t>(rows, index, count, out, stride);
    case kCacheLine:
      return GatherStrided<Bytes<kCacheLine>>(rows, index, count, out, stride);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(out + i * stride, rows + index[i] * width,
                    static_cast<size_t>(width));
      }
  }
}

template void GatherCodes(const uint8_t*, int64_t, const uint16_t*, int64_t,
                          const uint8_t*, int64_t, uint8_t*, NextRead);
template void GatherCodes(const uint8_t*, int64_t, const uint32_t*, int64_t,
                          const uint8_t*, int64_t, uint8_t*, NextRead);
template void Gather(const uint8_t*, int64_t, const uint16_t*, int64_t, uint8_t*, int64_t,
                     NextRead);
template void Gather(const uint8_t*, int64_t, const uint32_t*, int64_t, uint8_t*, int64_t,
                     NextRead);

}  // namespace fastload
