// Pieces of memory that wait for their next use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace fastload {

// The free pieces of a pool, by capacity. The pool announces each piece before it makes
// the piece, so that Keep, which runs in destructors, takes no memory. Not thread-safe.
class SparePieces {
 public:
  struct Piece {
    uint8_t* data = nullptr;  // null: no piece
    int64_t capacity = 0;
  };

  // Announces a new piece. Throws std::bad_alloc, and changes nothing, if there is no
  // memory.
  void Announce(int64_t capacity);
  // Forgets a piece that was announced and is not kept: it was freed, or never made.
  void Forget(int64_t capacity) noexcept { --pieces_.find(capacity)->second.announced; }

  // Keeps a piece for its next use.
  void Keep(Piece piece) noexcept;
  // Takes a piece of the capacity, or null.
  uint8_t* Take(int64_t capacity) noexcept;
  // Takes one of the largest pieces, and forgets it.
  Piece TakeLargest() noexcept;

  // Bytes of all pieces that are kept.
  int64_t bytes() const { return bytes_; }

 private:
  struct Class {
    size_t announced = 0;        // number of pieces that exist
    std::vector<uint8_t*> kept;  // has room for all announced pieces
  };

  std::map<int64_t, Class> pieces_;  // by capacity; pools use a few capacities
  int64_t bytes_ = 0;
};

}  // namespace fastload
