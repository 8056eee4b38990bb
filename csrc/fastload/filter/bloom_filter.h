// The split block Bloom filter of a column chunk, probed without reading the whole
// filter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fastload/base/byte_range.h"
#include "fastload/source/footer_chunk.h"

namespace fastload {

// A Bloom filter in a file: a header, then blocks.
class BloomFilter {
 public:
  static constexpr int64_t kBlockBytes = 32;
  // No header of the algorithm that the format knows is longer.
  static constexpr int64_t kMostHeaderBytes = 20;

  // Returns the filter of a column chunk by the footer, or nullopt if the footer names no
  // filter inside a file of `file_bytes` bytes.
  static std::optional<BloomFilter> Find(const FooterChunk& chunk, int64_t file_bytes);

  // Returns the range of the header. The range may also contain bytes of blocks.
  ByteRange header() const { return header_; }

  // Returns true if Block() is known before the header is read. Old writers leave the
  // filter's length out of the footer.
  bool sized() const { return blocks_ > 0; }

  // Reads the header, of which `bytes` are the bytes. Returns false if the filter can't
  // be used: the header is damaged, names another algorithm, or has another length than
  // the footer says.
  bool ReadHeader(std::span<const uint8_t> bytes);

  // Returns the range of the block that tells of a hash; the filter must be sized.
  ByteRange Block(uint64_t hash) const;

  // Returns true if values of the hash may be in the column chunk, by the hash's block.
  static bool MayContain(std::span<const uint8_t> block, uint64_t hash);

 private:
  BloomFilter(ByteRange header, int64_t file_bytes)
      : header_(header), file_bytes_(file_bytes) {}

  ByteRange header_;
  int64_t file_bytes_;
  int64_t first_block_ = 0;  // offset of the first block
  int64_t blocks_ = 0;       // number of blocks; 0: not known yet
};

}  // namespace fastload
