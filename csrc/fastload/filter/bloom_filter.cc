#include "fastload/filter/bloom_filter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace fastload {
namespace {

// The largest filter that libparquet reads and writes.
constexpr int64_t kMostBytes = int64_t{128} << 20;

// The header in Thrift's compact protocol: field 1 is the number of bytes, as a zigzag
// varint; the fields behind are the unions of the algorithm (BLOCK), the hash (XXHASH)
// and the compression (UNCOMPRESSED), each with an empty struct as its field 1.
constexpr uint8_t kBytesField = 0x15;
constexpr std::array<uint8_t, 13> kAlgorithms = {0x1C, 0x1C, 0,    0, 0x1C, 0x1C, 0,
                                                 0,    0x1C, 0x1C, 0, 0,    0};

// Returns the bytes that a header with a given number of bytes takes.
int64_t HeaderBytes(int64_t bytes) {
  int64_t length = 1 + static_cast<int64_t>(kAlgorithms.size());
  for (auto zigzag = 2 * bytes; zigzag > 0; zigzag >>= 7) ++length;
  return length;
}

// Every writer makes powers of two, so that other sizes are damage.
bool IsSize(int64_t bytes) {
  return bytes >= BloomFilter::kBlockBytes && bytes <= kMostBytes &&
         std::has_single_bit(static_cast<uint64_t>(bytes));
}

// Returns the bytes of the blocks of a filter whose header and blocks take `length`
// bytes, or 0 if no filter does.
int64_t BlockBytes(int64_t length) {
  // A header takes at least 15 bytes, and the blocks a multiple of 32.
  const int64_t most = length - HeaderBytes(1);
  const int64_t bytes = most > 0 ? most - most % BloomFilter::kBlockBytes : 0;
  return IsSize(bytes) && bytes + HeaderBytes(bytes) == length ? bytes : 0;
}

// Returns the number of bytes that a header says, or nullopt for another header.
std::optional<int64_t> ParseHeader(std::span<const uint8_t> header) {
  if (header.empty() || header[0] != kBytesField) return std::nullopt;
  uint64_t zigzag = 0;
  size_t at = 1;
  for (int shift = 0; shift < 35; shift += 7) {
    if (at >= header.size()) return std::nullopt;
    const uint8_t byte = header[at++];
    zigzag |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  const auto rest = header.subspan(at);
  if (rest.size() < kAlgorithms.size() ||
      !std::equal(kAlgorithms.begin(), kAlgorithms.end(), rest.begin())) {
    return std::nullopt;
  }
  const auto bytes = static_cast<int64_t>(zigzag / 2);
  // A varint with leading zeros would move the blocks.
  const bool shortest =
      static_cast<int64_t>(at + kAlgorithms.size()) == HeaderBytes(bytes);
  return zigzag % 2 == 0 && IsSize(bytes) && shortest ? std::optional(bytes)
                                                      : std::nullopt;
}

}  // namespace

std::optional<BloomFilter> BloomFilter::Find(const FooterChunk& chunk,
                                             int64_t file_bytes) {
  const auto [offset, length] = chunk.bloom_filter;
  if (offset <= 0 || offset >= file_bytes) return std::nullopt;
  const int64_t most = file_bytes - offset;
  BloomFilter filter({offset, std::min(most, kMostHeaderBytes)}, file_bytes);
  if (length == -1) return filter;
  const int64_t bytes = BlockBytes(length);
  if (bytes == 0 || length > most) return std::nullopt;
  filter.header_.bytes = length - bytes;
  filter.first_block_ = offset + filter.header_.bytes;
  filter.blocks_ = bytes / kBlockBytes;
  return filter;
}

bool BloomFilter::ReadHeader(std::span<const uint8_t> bytes) {
  const auto said = ParseHeader(bytes);
  if (!said) return false;
  if (sized()) return *said == blocks_ * kBlockBytes;
  first_block_ = header_.offset + HeaderBytes(*said);
  if (*said > file_bytes_ - first_block_) return false;
  blocks_ = *said / kBlockBytes;
  return true;
}

ByteRange BloomFilter::Block(uint64_t hash) const {
  const uint64_t block = ((hash >> 32) * static_cast<uint64_t>(blocks_)) >> 32;
  return {first_block_ + static_cast<int64_t>(block) * kBlockBytes, kBlockBytes};
}

bool BloomFilter::MayContain(std::span<const uint8_t> block, uint64_t hash) {
  // The odd multipliers that the format names; each chooses a bit of one word.
  constexpr std::array<uint32_t, 8> kSalts = {0x47B6137B, 0x44974D91, 0x8824AD5B,
                                              0xA2B7289D, 0x705495C7, 0x2DF1424B,
                                              0x9EFC4947, 0x5C6BFB31};
  const auto low = static_cast<uint32_t>(hash);
  for (size_t i = 0; i < kSalts.size(); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, block.data() + i * sizeof(word), sizeof(word));
    if ((word >> ((low * kSalts[i]) >> 27) & 1) == 0) return false;
  }
  return true;
}

}  // namespace fastload
