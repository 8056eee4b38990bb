// Mutations that keep Parquet files valid in form: they change the bytes of pages in
// place, or the footer with its length.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrow/io/memory.h"
#include "fastload/source/arrow_versions.h"
#include "fastload/source/file.h"
#include "parquet/exception.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace fastload::testing {

inline constexpr size_t kMagicBytes = 4;
inline constexpr size_t kTrailerBytes = 8;

// Returns the start of the footer, or 0 if the bytes are no file.
inline size_t FooterStart(const uint8_t* data, size_t size) {
  if (size < kMagicBytes + kTrailerBytes) return 0;
  uint32_t bytes = 0;
  std::memcpy(&bytes, data + size - kTrailerBytes, sizeof(bytes));
  if (bytes > size - kMagicBytes - kTrailerBytes) return 0;
  return size - kTrailerBytes - bytes;
}

// Returns the starts of dictionary pages, data pages and indexes.
inline std::vector<size_t> ReadStarts(const uint8_t* data, size_t size) {
  std::vector<size_t> starts;
  try {
    parquet::ReaderProperties properties;
    LimitThrift(static_cast<int64_t>(size), &properties);
    const auto metadata =
        parquet::ParquetFileReader::Open(
            std::make_shared<arrow::io::BufferReader>(
                std::make_shared<arrow::Buffer>(data, static_cast<int64_t>(size))),
            properties)
            ->metadata();
    const auto add = [&](int64_t offset) {
      if (offset > 0 && offset < static_cast<int64_t>(size)) {
        starts.push_back(static_cast<size_t>(offset));
      }
    };
    for (int g = 0; g < metadata->num_row_groups(); ++g) {
      const auto group = metadata->RowGroup(g);
      for (int c = 0; c < group->num_columns(); ++c) {
        const auto chunk = group->ColumnChunk(c);
        add(chunk->data_page_offset());
        if (chunk->has_dictionary_page()) add(chunk->dictionary_page_offset());
        if (const auto place = chunk->GetOffsetIndexLocation()) add(place->offset);
        if (const auto place = chunk->GetColumnIndexLocation()) add(place->offset);
      }
    }
  } catch (const std::exception&) {
    // A footer that libparquet refuses names no starts.
  }
  return starts;
}

// Returns the same starts from a cache, because footers are mutated more rarely than
// pages.
inline const std::vector<size_t>& Starts(const uint8_t* data, size_t size,
                                         size_t footer) {
  static std::string known;
  static std::vector<size_t> starts;
  const std::string_view tail(reinterpret_cast<const char*>(data) + footer,
                              size - footer);
  if (known != tail) {
    known = tail;
    starts = ReadStarts(data, size);
  }
  return starts;
}

// Mutates the bytes before `end`, the start of the footer.
inline void MutateBody(uint8_t* data, size_t size, size_t end, std::mt19937* random) {
  constexpr size_t kNear = 256;  // headers, levels and the first values
  constexpr std::array<uint8_t, 8> kBytes = {0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF};
  const auto below = [&](size_t n) { return n == 0 ? 0 : (*random)() % n; };
  const std::vector<size_t>& starts = Starts(data, size, end);
  size_t at = kMagicBytes + below(end - kMagicBytes);
  if (!starts.empty() && below(4) > 0) {
    at = starts[below(starts.size())] + below(size_t{1} << below(9)) % kNear;
  }
  if (at < kMagicBytes || at >= end) return;
  const size_t length = std::min<size_t>(1 + below(size_t{1} << below(6)), end - at);
  switch (below(4)) {
    case 0:
      data[at] ^= static_cast<uint8_t>(1 << below(8));
      return;
    case 1:
      data[at] = kBytes[below(kBytes.size())];
      return;
    case 2: {
      const size_t from = kMagicBytes + below(end - kMagicBytes - length + 1);
      std::memmove(data + at, data + from, length);
      return;
    }
    default:
      LLVMFuzzerMutate(data + at, length, length);
  }
}

// Overwrites a name in the footer, of `size` bytes in all, with any bytes of the same
// number.
inline void MutateName(uint8_t* data, size_t footer, size_t size, std::mt19937* random) {
  constexpr std::string_view kBytes("\0\n\r`.,\x80\xff\xc3 \"\\", 12);
  // A name is a Thrift binary: 0x48 or 0x18, a length, then printable bytes.
  std::vector<std::pair<size_t, size_t>> names;
  for (size_t at = footer; at + 2 < size - kTrailerBytes; ++at) {
    const size_t length = data[at + 1];
    if ((data[at] & 0xF) != 8 || length == 0 || length > 64) continue;
    if (at + 2 + length >= size - kTrailerBytes) continue;
    names.emplace_back(at + 2, length);
  }
  if (names.empty()) return;
  const auto [at, length] = names[(*random)() % names.size()];
  for (size_t i = 0; i < length; ++i) {
    if ((*random)() % 3 == 0) continue;
    data[at + i] = (*random)() % 2 == 0
                       ? static_cast<uint8_t>(kBytes[(*random)() % kBytes.size()])
                       : static_cast<uint8_t>((*random)());
  }
}

// Mutates a file like LLVMFuzzerCustomMutator.
inline size_t MutateFile(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  const size_t footer = FooterStart(data, size);
  const auto turn = random() % 16;
  if (footer <= kMagicBytes || turn == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (turn < 12) {
    for (auto times = 1 + random() % 3; times > 0; --times) {
      MutateBody(data, size, footer, &random);
    }
    return size;
  }
  if (turn == 12) {
    MutateName(data, footer, size, &random);
    return size;
  }
  std::vector<uint8_t> bytes(data + footer, data + size - kTrailerBytes);
  const size_t most = max_size - footer - kTrailerBytes;
  bytes.resize(std::max<size_t>(most, bytes.size()));
  const size_t length =
      LLVMFuzzerMutate(bytes.data(), size - kTrailerBytes - footer, most);
  std::memcpy(data + footer, bytes.data(), length);
  const auto stored = static_cast<uint32_t>(length);
  std::memcpy(data + footer + length, &stored, sizeof(stored));
  std::memcpy(data + footer + length + sizeof(stored), "PAR1", kMagicBytes);
  return footer + length + kTrailerBytes;
}

}  // namespace fastload::testing
