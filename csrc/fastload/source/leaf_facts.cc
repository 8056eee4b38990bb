#include "fastload/source/leaf_facts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace fastload {
namespace {

// Little-endian, like all machines that fastload runs on.
using LeafEnd = uint32_t;

constexpr size_t kFields = 14;
constexpr int64_t kMarksNoCompression = 1;
constexpr int64_t kLeavesOutHeader = 2;

// A leaf begins with a byte for each field: the bytes of its least number, and in the
// upper half the bytes of a distance.

using Numbers = std::array<int64_t, kFields>;

Numbers NumbersOf(const FooterChunk& chunk) {
  return {chunk.offset,
          chunk.compressed_bytes,
          chunk.uncompressed_bytes,
          chunk.values,
          static_cast<int64_t>(chunk.codec),
          chunk.nulls,
          chunk.value_bytes,
          chunk.offset_index.offset,
          chunk.offset_index.bytes,
          chunk.column_index.offset,
          chunk.column_index.bytes,
          chunk.bloom_filter.offset,
          chunk.bloom_filter.bytes,
          (chunk.marks_no_compression ? kMarksNoCompression : 0) |
              (chunk.leaves_out_header ? kLeavesOutHeader : 0)};
}

FooterChunk ChunkOf(const Numbers& numbers) {
  return {.offset = numbers[0],
          .compressed_bytes = numbers[1],
          .uncompressed_bytes = numbers[2],
          .values = numbers[3],
          .codec = static_cast<parquet::Compression::type>(numbers[4]),
          .nulls = numbers[5],
          .value_bytes = numbers[6],
          .offset_index = {numbers[7], numbers[8]},
          .column_index = {numbers[9], numbers[10]},
          .bloom_filter = {numbers[11], numbers[12]},
          .marks_no_compression = (numbers[13] & kMarksNoCompression) != 0,
          .leaves_out_header = (numbers[13] & kLeavesOutHeader) != 0};
}

// Small numbers of either sign become small ones without.
uint64_t ZigZag(int64_t number) {
  return static_cast<uint64_t>(number) << 1 ^ static_cast<uint64_t>(number >> 63);
}
int64_t OfZigZag(uint64_t number) {
  return static_cast<int64_t>((number >> 1) ^ (0 - (number & 1)));
}

uint8_t BytesOf(uint64_t number) {
  uint8_t bytes = 0;
  for (; number != 0; number >>= 8) ++bytes;
  return bytes;
}

uint8_t WidthOf(uint64_t most) {
  const uint8_t bytes = BytesOf(most);
  if (bytes <= 2) return bytes;
  return bytes <= 4 ? 4 : 8;
}

uint64_t LoadBytes(const char* from, size_t bytes) {
  uint64_t number = 0;
  std::memcpy(&number, from, bytes);
  return number;
}

uint64_t LoadDistance(const char* from, size_t width) {
  switch (width) {
    case 1:
      return LoadBytes(from, 1);
    case 2:
      return LoadBytes(from, 2);
    case 4:
      return LoadBytes(from, 4);
    case 8:
      return LoadBytes(from, 8);
    default:  // no facts have such a width
      return LoadBytes(from, width);
  }
}

void AddLeaf(const std::vector<FooterChunk>& chunks, std::string* to) {
  Numbers least = NumbersOf(chunks[0]);
  Numbers most = least;
  for (const FooterChunk& chunk : chunks) {
    const Numbers numbers = NumbersOf(chunk);
    for (size_t f = 0; f < kFields; ++f) {
      least[f] = std::min(least[f], numbers[f]);
      most[f] = std::max(most[f], numbers[f]);
    }
  }
  const auto distance = [&least](int64_t number, size_t field) {
    return static_cast<uint64_t>(number) - static_cast<uint64_t>(least[field]);
  };
  const size_t start = to->size();
  to->resize(start + kFields);
  std::array<size_t, kFields> width{};
  for (size_t f = 0; f < kFields; ++f) {
    width[f] = WidthOf(distance(most[f], f));
    const uint64_t number = ZigZag(least[f]);
    const uint8_t bytes = BytesOf(number);
    (*to)[start + f] = static_cast<char>(width[f] << 4 | bytes);
    to->append(reinterpret_cast<const char*>(&number), bytes);
  }
  std::array<size_t, kFields> starts{};
  size_t end = to->size();
  for (size_t f = 0; f < kFields; ++f) {
    starts[f] = end;
    end += width[f] * chunks.size();
  }
  to->resize(end);
  for (size_t g = 0; g < chunks.size(); ++g) {
    const Numbers numbers = NumbersOf(chunks[g]);
    for (size_t f = 0; f < kFields; ++f) {
      const uint64_t number = distance(numbers[f], f);
      std::memcpy(to->data() + starts[f] + g * width[f], &number, width[f]);
    }
  }
}

}  // namespace

std::string LeafFacts::Pack(const std::vector<std::vector<FooterChunk>>& chunks) {
  std::string bytes(chunks.size() * sizeof(LeafEnd), '\0');
  for (size_t leaf = 0; leaf < chunks.size(); ++leaf) {
    if (!chunks[leaf].empty()) AddLeaf(chunks[leaf], &bytes);
    // Facts take less than their footer, whose length has 32 bits.
    const auto end = static_cast<LeafEnd>(bytes.size());
    std::memcpy(bytes.data() + leaf * sizeof(end), &end, sizeof(end));
  }
  return bytes;
}

LeafFacts::LeafFacts(std::string_view bytes, size_t leaves, size_t row_groups,
                     std::shared_ptr<const void> owner)
    : bytes_(bytes), leaves_(leaves), row_groups_(row_groups), owner_(std::move(owner)) {}

std::string_view LeafFacts::BytesOf(size_t leaf) const {
  const size_t ends = leaves_ * sizeof(LeafEnd);
  if (bytes_.size() < ends) return {};
  const auto end_of = [&](size_t i) {
    return static_cast<size_t>(
        LoadBytes(bytes_.data() + i * sizeof(LeafEnd), sizeof(LeafEnd)));
  };
  const size_t start = leaf == 0 ? ends : end_of(leaf - 1);
  const size_t end = end_of(leaf);
  if (start < ends || end < start || end > bytes_.size()) return {};
  return bytes_.substr(start, end - start);
}

std::optional<FooterChunk> LeafFacts::Chunk(size_t leaf, size_t row_group) const {
  if (leaf >= leaves_ || row_group >= row_groups_) return std::nullopt;
  const std::string_view of_leaf = BytesOf(leaf);
  if (of_leaf.size() < kFields) return std::nullopt;
  std::array<uint8_t, kFields> widths{};
  std::memcpy(widths.data(), of_leaf.data(), kFields);
  size_t least_bytes = 0;
  size_t width = 0;
  for (const uint8_t both : widths) {
    least_bytes += both & 0x0f;
    width += both >> 4;
    if ((both & 0x0f) > 8 || both >> 4 > 8) return std::nullopt;
  }
  const size_t head = kFields + least_bytes;
  if (head > of_leaf.size()) return std::nullopt;
  const size_t left = of_leaf.size() - head;
  if (width == 0 ? left != 0 : left % width != 0 || left / width != row_groups_) {
    return std::nullopt;
  }
  const char* least = of_leaf.data() + kFields;
  const char* distances = least + least_bytes;
  Numbers numbers{};
  for (size_t f = 0; f < kFields; ++f) {
    const size_t bytes = widths[f] & 0x0f;
    const size_t of_distance = widths[f] >> 4;
    numbers[f] = OfZigZag(LoadBytes(least, bytes));
    least += bytes;
    if (of_distance == 0) continue;
    const uint64_t distance =
        LoadDistance(distances + row_group * of_distance, of_distance);
    numbers[f] = static_cast<int64_t>(static_cast<uint64_t>(numbers[f]) + distance);
    distances += row_groups_ * of_distance;
  }
  return ChunkOf(numbers);
}

}  // namespace fastload
