#include "fastload/source/leaf_facts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace fastload {
namespace {

struct FactsHead {
  uint32_t leaves;
  uint32_t row_groups;
};

struct FactsPlace {
  uint32_t leaf;
  uint32_t unused;
  uint64_t start;  // of the leaf's numbers in the bytes
};

constexpr size_t kFields = 14;

// Stands before the numbers of a leaf. The numbers of each field follow, one field after
// the other.
struct LeafHead {
  std::array<int64_t, kFields> least;
  std::array<uint8_t, kFields> width;  // 0, 1, 2, 4 or 8 bytes a number
  std::array<uint8_t, 2> unused;
};

constexpr int64_t kMarksNoCompression = 1;
constexpr int64_t kLeavesOutHeader = 2;

std::array<int64_t, kFields> NumbersOf(const FooterChunk& chunk) {
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

FooterChunk ChunkOf(const std::array<int64_t, kFields>& numbers) {
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

uint8_t WidthOf(uint64_t most) {
  if (most == 0) return 0;
  if (most <= UINT8_MAX) return 1;
  if (most <= UINT16_MAX) return 2;
  return most <= UINT32_MAX ? 4 : 8;
}

template <typename T>
void Add(const T& value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T LoadAs(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint64_t LoadNumber(const char* from, uint8_t width) {
  switch (width) {
    case 1:
      return LoadAs<uint8_t>(from);
    case 2:
      return LoadAs<uint16_t>(from);
    case 4:
      return LoadAs<uint32_t>(from);
    default:
      return LoadAs<uint64_t>(from);
  }
}

// Little-endian, like all machines that fastload runs on.
void AddLeaf(const std::vector<FooterChunk>& chunks, std::string* to) {
  std::array<int64_t, kFields> most{};
  LeafHead head{};
  for (size_t g = 0; g < chunks.size(); ++g) {
    const auto numbers = NumbersOf(chunks[g]);
    for (size_t f = 0; f < kFields; ++f) {
      head.least[f] = g == 0 ? numbers[f] : std::min(head.least[f], numbers[f]);
      most[f] = g == 0 ? numbers[f] : std::max(most[f], numbers[f]);
    }
  }
  const auto distance = [&head](int64_t number, size_t field) {
    return static_cast<uint64_t>(number) - static_cast<uint64_t>(head.least[field]);
  };
  size_t bytes = 0;
  for (size_t f = 0; f < kFields; ++f) {
    head.width[f] = WidthOf(distance(most[f], f));
    bytes += head.width[f];
  }
  Add(head, to);
  size_t at = to->size();
  to->resize(at + bytes * chunks.size());
  std::array<size_t, kFields> starts{};
  for (size_t f = 0; f < kFields; ++f) {
    starts[f] = at;
    at += head.width[f] * chunks.size();
  }
  for (size_t g = 0; g < chunks.size(); ++g) {
    const auto numbers = NumbersOf(chunks[g]);
    for (size_t f = 0; f < kFields; ++f) {
      const uint64_t number = distance(numbers[f], f);
      std::memcpy(to->data() + starts[f] + g * head.width[f], &number, head.width[f]);
    }
  }
}

bool IsWidth(uint8_t width) {
  return width == 0 || width == 1 || width == 2 || width == 4 || width == 8;
}

}  // namespace

std::string LeafFacts::Pack(const std::vector<int32_t>& leaves,
                            const std::vector<std::vector<FooterChunk>>& chunks) {
  std::string bytes;
  const size_t row_groups = chunks.empty() ? 0 : chunks[0].size();
  Add(FactsHead{static_cast<uint32_t>(leaves.size()), static_cast<uint32_t>(row_groups)},
      &bytes);
  const size_t places = bytes.size();
  bytes.resize(places + leaves.size() * sizeof(FactsPlace));
  for (size_t i = 0; i < leaves.size(); ++i) {
    const FactsPlace place{static_cast<uint32_t>(leaves[i]), 0, bytes.size()};
    std::memcpy(bytes.data() + places + i * sizeof(FactsPlace), &place, sizeof(place));
    AddLeaf(chunks[i], &bytes);
  }
  return bytes;
}

std::unique_ptr<const LeafFacts> LeafFacts::Of(std::string_view bytes, size_t row_groups,
                                               std::shared_ptr<const void> owner) {
  if (bytes.size() < sizeof(FactsHead)) return nullptr;
  const FactsHead head = LoadAs<FactsHead>(bytes.data());
  const size_t most = (bytes.size() - sizeof(FactsHead)) / (sizeof(FactsPlace) + sizeof(LeafHead));
  if (head.row_groups != row_groups || head.leaves > most) return nullptr;
  uint64_t end = sizeof(FactsHead) + head.leaves * sizeof(FactsPlace);
  int64_t before = -1;
  for (size_t i = 0; i < head.leaves; ++i) {
    const auto place = LoadAs<FactsPlace>(bytes.data() + sizeof(FactsHead) + i * sizeof(FactsPlace));
    if (place.start != end || place.leaf <= before || bytes.size() - end < sizeof(LeafHead)) {
      return nullptr;
    }
    before = place.leaf;
    const auto of_leaf = LoadAs<LeafHead>(bytes.data() + end);
    size_t width = 0;
    for (const uint8_t one : of_leaf.width) {
      if (!IsWidth(one)) return nullptr;
      width += one;
    }
    end += sizeof(LeafHead);
    if (width > 0 && row_groups > (bytes.size() - end) / width) return nullptr;
    end += width * row_groups;
  }
  if (end != bytes.size()) return nullptr;
  return std::unique_ptr<const LeafFacts>(
      new LeafFacts(bytes, head.leaves, row_groups, std::move(owner)));
}

int64_t LeafFacts::Find(int32_t leaf) const {
  const char* const places = bytes_.data() + sizeof(FactsHead);
  size_t first = 0;
  size_t end = leaves_;
  while (first < end) {
    const size_t middle = first + (end - first) / 2;
    const auto place = LoadAs<FactsPlace>(places + middle * sizeof(FactsPlace));
    const auto found = static_cast<int32_t>(place.leaf);
    if (found == leaf) return static_cast<int64_t>(place.start);
    if (found < leaf) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return -1;
}

FooterChunk LeafFacts::Chunk(int64_t place, size_t row_group) const {
  const char* at = bytes_.data() + place;
  const auto head = LoadAs<LeafHead>(at);
  at += sizeof(head);
  std::array<int64_t, kFields> numbers = head.least;
  for (size_t f = 0; f < kFields; ++f) {
    const uint8_t width = head.width[f];
    if (width == 0) continue;
    const uint64_t distance = LoadNumber(at + row_group * width, width);
    numbers[f] = static_cast<int64_t>(static_cast<uint64_t>(numbers[f]) + distance);
    at += row_groups_ * width;
  }
  return ChunkOf(numbers);
}

}  // namespace fastload
