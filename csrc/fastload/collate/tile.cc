#include "fastload/collate/tile.h"

#include <cstring>

#include "fastload/base/stream_copy.h"
#include "fastload/base/strided.h"

namespace fastload {
namespace {

// kColumns is the number of columns; 0: `columns` columns.
template <size_t kColumns, typename T, typename StoreItem>
void StoreRows(const T* from, size_t pitch, size_t columns, int64_t rows, uint8_t* out,
               int64_t stride, const StoreItem& store) {
  const size_t count = kColumns == 0 ? columns : kColumns;
  for (int64_t row = 0; row < rows; ++row, ++from, out += stride) {
    for (size_t c = 0; c < count; ++c) store(from[c * pitch], out + c * sizeof(T));
  }
}

}  // namespace

template <typename StoreItem>
void Tile::ForEachItem(int64_t first, int64_t rows, uint8_t* out, int64_t stride,
                       const StoreItem& store) const {
  WithItem(static_cast<int>(item_), [&]<typename T>(T) {
    constexpr size_t kLine = kCacheLine / sizeof(T);
    const T* from = reinterpret_cast<const T*>(memory_) + first;
    const size_t pitch = static_cast<size_t>(Pitch(item_, columns_)) / sizeof(T);
    if (columns_ == kLine) {
      StoreRows<kLine>(from, pitch, columns_, rows, out, stride, store);
    } else {
      StoreRows<0>(from, pitch, columns_, rows, out, stride, store);
    }
  });
}

void Tile::Store(int64_t first, int64_t rows, uint8_t* out, int64_t stride) const {
  ForEachItem(first, rows, out, stride,
              [](auto item, uint8_t* to) { std::memcpy(to, &item, sizeof(item)); });
}

void Tile::Stream(int64_t first, int64_t rows, uint8_t* out, int64_t stride) const {
  ForEachItem(first, rows, out, stride,
              [](auto item, uint8_t* to) { StreamStore(item, to); });
}

}  // namespace fastload
