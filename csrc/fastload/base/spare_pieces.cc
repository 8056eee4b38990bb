#include "fastload/base/spare_pieces.h"

#include <algorithm>

namespace fastload {

void SparePieces::Announce(int64_t capacity) {
  Class& pieces = pieces_[capacity];
  if (pieces.announced == pieces.kept.capacity()) {
    pieces.kept.reserve(std::max<size_t>(2 * pieces.announced, 4));
  }
  ++pieces.announced;
}

void SparePieces::Keep(Piece piece) noexcept {
  pieces_.find(piece.capacity)->second.kept.push_back(piece.data);
  bytes_ += piece.capacity;
}

uint8_t* SparePieces::Take(int64_t capacity) noexcept {
  const auto found = pieces_.find(capacity);
  if (found == pieces_.end() || found->second.kept.empty()) return nullptr;
  uint8_t* const data = found->second.kept.back();
  found->second.kept.pop_back();
  bytes_ -= capacity;
  return data;
}

SparePieces::Piece SparePieces::TakeLargest() noexcept {
  for (auto pieces = pieces_.rbegin(); pieces != pieces_.rend(); ++pieces) {
    const int64_t capacity = pieces->first;
    if (uint8_t* const data = Take(capacity); data != nullptr) {
      Forget(capacity);
      return {data, capacity};
    }
  }
  return {};
}

}  // namespace fastload
