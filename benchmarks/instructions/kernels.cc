// Loops over memory: bit unpacking, gathers, decompression.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "arrow/util/compression.h"
#include "count.h"
#include "fastload/base/gather.h"
#include "fastload/decode/pages/bit_unpack.h"
#include "fastload/decode/pages/snappy.h"

namespace fastload::instructions {
namespace {

void CountUnpack() {
  std::vector<uint8_t> packed(kRows * 4 + kUnpackSlack, 0x5A);
  std::vector<uint32_t> out(kRows);
  Count("bit_unpack_1_to_32", 32 * kRows, [&] {
    for (int width = 1; width <= 32; ++width) {
      UnpackGroups(packed.data(), kRows / 8, width, out.data());
    }
  });
}

void CountGather(const char* name, int64_t width, int64_t stride) {
  std::vector<uint16_t> index(kRows);
  std::iota(index.begin(), index.end(), 0);
  std::shuffle(index.begin(), index.end(), std::mt19937(3));
  std::vector<uint8_t> from(static_cast<size_t>(kRows * width));
  std::vector<uint8_t> to(static_cast<size_t>(kRows * stride));
  Count(name, kRows, [&] {
    Gather(from.data(), width, index.data(), kRows, to.data(), stride, NextRead::kLate);
  });
}

void CountGatherCodes() {
  std::vector<uint16_t> index(kRows);
  std::iota(index.begin(), index.end(), 0);
  std::shuffle(index.begin(), index.end(), std::mt19937(3));
  std::vector<uint16_t> codes(kRows);
  std::iota(codes.begin(), codes.end(), 0);
  std::vector<uint64_t> table(kRows);
  std::vector<uint64_t> out(kRows);
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes.data());
  Count("gather_codes", kRows, [&] {
    GatherCodes(bytes, 2, index.data(), kRows, reinterpret_cast<uint8_t*>(table.data()),
                8, reinterpret_cast<uint8_t*>(out.data()), NextRead::kLate);
  });
}

void CountSnappy(const char* name, std::span<const uint8_t> data) {
  auto codec = *arrow::util::Codec::Create(arrow::Compression::SNAPPY);
  const auto size = static_cast<int64_t>(data.size());
  std::vector<uint8_t> packed(
      static_cast<size_t>(codec->MaxCompressedLen(size, data.data())));
  const int64_t bytes = *codec->Compress(
      size, data.data(), static_cast<int64_t>(packed.size()), packed.data());
  packed.resize(static_cast<size_t>(bytes));
  std::vector<uint8_t> out(data.size() + kSnappySlack);
  Count(name, size, [&] {
    if (SnappyDecompress(packed, out.data(), size)) return;
    Check(Status::Invalid("Expected Snappy to decompress"));
  });
}

void CountSnappies() {
  std::vector<int64_t> integers = Kinds(1 << 20, 4);
  for (int64_t& value : integers) value &= 0xFFFFF;
  CountSnappy("snappy_integers", {reinterpret_cast<const uint8_t*>(integers.data()),
                                  integers.size() * sizeof(int64_t)});
  std::string text;
  for (const int64_t kind : Kinds(5000, 5)) {
    text += "GET /items/" + std::to_string(kind & 0xFFFF) + "?page=1 ";
  }
  CountSnappy("snappy_text",
              {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

void CountKernels() {
  CountUnpack();
  CountGather("gather_8", 8, 8);
  CountGather("gather_4_strided", 4, 13 * 4);
  CountGatherCodes();
  CountSnappies();
}

}  // namespace fastload::instructions
