// Fuzzer of Snappy: fastload and Arrow's codec return the same bytes, or both refuse, and
// nothing is written beyond the slack. The first byte says whether the rest is
// compressed, is compressed first, or describes copies over short distances.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrow/util/compression.h"
#include "checked.h"
#include "fastload/decode/pages/snappy.h"

namespace fastload::testing {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

arrow::util::Codec& Codec() {
  static const std::unique_ptr<arrow::util::Codec> codec =
      *arrow::util::Codec::Create(arrow::Compression::SNAPPY);
  return *codec;
}

void Compare(const std::vector<uint8_t>& compressed) {
  const auto size = SnappySize(compressed);
  if (!size || *size > kMostBytes) return;
  // The memory has exactly the promised size, so that ASan sees writes behind the end.
  std::vector<uint8_t> own(static_cast<size_t>(*size + kSnappySlack));
  own.shrink_to_fit();
  const bool read = SnappyDecompress(compressed, own.data(), *size);
  std::vector<uint8_t> expected(static_cast<size_t>(*size) + 1);
  const auto length = Codec().Decompress(static_cast<int64_t>(compressed.size()),
                                         compressed.data(), *size, expected.data());
  Expect(read == length.ok(), read ? "bytes that Arrow refuses" : "refused alone");
  if (!read) return;
  Expect(*length == *size, "the size");
  Expect(std::equal(own.begin(), own.begin() + *size, expected.begin()), "bytes");
}

// Compressed bytes of a literal and of copies: each two input bytes say the distance, 1
// to 16, and the length of a copy, and whether a literal of one byte comes before the
// copy. The last copy ends where the output ends.
std::vector<uint8_t> ShortCopies(const uint8_t* data, size_t size) {
  constexpr size_t kFirst = 16;
  std::vector<uint8_t> body = {(kFirst - 1) << 2};
  for (size_t i = 0; i < kFirst; ++i) body.push_back(static_cast<uint8_t>('a' + i));
  size_t bytes = kFirst;
  for (size_t i = 0; i + 1 < std::min<size_t>(size, 4096); i += 2) {
    if ((data[i + 1] & 0x40) != 0) {
      body.insert(body.end(), {0, data[i]});
      ++bytes;
    }
    const size_t length = data[i + 1] % 64 + 1;
    body.insert(body.end(), {static_cast<uint8_t>((length - 1) << 2 | 2),
                             static_cast<uint8_t>(data[i] % 16 + 1), 0});
    bytes += length;
  }
  std::vector<uint8_t> compressed = {static_cast<uint8_t>(bytes | 0x80),
                                     static_cast<uint8_t>(bytes >> 7 | 0x80),
                                     static_cast<uint8_t>(bytes >> 14)};
  compressed.insert(compressed.end(), body.begin(), body.end());
  return compressed;
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fastload::testing;
  if (size == 0) return 0;
  if (data[0] % 4 == 2) {
    Compare(ShortCopies(data + 1, size - 1));
    return 0;
  }
  if (data[0] % 2 == 0) {
    Compare({data + 1, data + size});
    return 0;
  }
  const auto bytes = static_cast<int64_t>(size - 1);
  std::vector<uint8_t> compressed(
      static_cast<size_t>(Codec().MaxCompressedLen(bytes, data + 1)));
  const auto length = Codec().Compress(
      bytes, data + 1, static_cast<int64_t>(compressed.size()), compressed.data());
  Expect(length.ok(), "bytes that can be compressed");
  compressed.resize(static_cast<size_t>(*length));
  compressed.shrink_to_fit();
  Compare(compressed);
  return 0;
}
