#include "fastload/decode/pages/level_stream.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace fastload {

namespace {

Status BeyondMaximum(int64_t level, int64_t max_level) {
  return MakeError(ErrorKind::kCorruptFile, "Expected levels of at most " +
                                                std::to_string(max_level) + ", got " +
                                                std::to_string(level));
}

}  // namespace

LevelStream::LevelStream(int16_t max_level)
    : max_level_(max_level),
      bit_width_(std::bit_width(static_cast<uint16_t>(max_level))) {}

Status LevelStream::CheckMaximum() const {
  // Levels are returned as bytes.
  if (max_level_ <= UINT8_MAX) return Status::OK();
  return MakeError(ErrorKind::kUnsupported,
                   "Expected a column nested at most " + std::to_string(UINT8_MAX) +
                       " levels deep, got " + std::to_string(max_level_));
}

Result<int64_t> LevelStream::SetV1(parquet::Encoding::type encoding, int64_t levels,
                                   const uint8_t* data, int64_t size) {
  legacy_ = false;
  if (max_level_ == 0) return 0;
  ARROW_RETURN_NOT_OK(CheckMaximum());
  if (encoding == parquet::Encoding::BIT_PACKED) {
    legacy_ = true;
    return legacy_levels_.SetData(encoding, max_level_, static_cast<int>(levels), data,
                                  static_cast<int32_t>(size));
  }
  if (encoding != parquet::Encoding::RLE) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected levels encoded RLE or BIT_PACKED, got " +
                         parquet::EncodingToString(encoding));
  }
  constexpr int64_t kPrefix = 4;
  uint32_t length = 0;
  if (size >= kPrefix) std::memcpy(&length, data, kPrefix);
  if (size < kPrefix || length > size - kPrefix) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected levels of at most " + std::to_string(size) +
                         " bytes, got " + std::to_string(kPrefix + int64_t{length}));
  }
  runs_.Reset(data + kPrefix, length, bit_width_, static_cast<uint32_t>(max_level_));
  return kPrefix + length;
}

Status LevelStream::SetV2(const uint8_t* data, int64_t size) {
  legacy_ = false;
  runs_.Reset(data, size, bit_width_, static_cast<uint32_t>(max_level_));
  return CheckMaximum();
}

Result<HybridDecoder::Run> LevelStream::Peek() {
  if (legacy_) return HybridDecoder::Run{};
  return runs_.Peek();
}

Status LevelStream::Decode(int64_t n, uint8_t* levels) {
  if (legacy_) return DecodeLegacy(n, levels);
  if (bit_width_ <= 1) return runs_.DecodeBits(n, levels);
  block_.resize(kBlockLevels);
  const auto max_level = static_cast<uint32_t>(max_level_);
  while (n > 0) {
    const int64_t count = std::min(n, kBlockLevels);
    ARROW_RETURN_NOT_OK(runs_.Decode(count, block_.data()));
    const uint32_t largest = MaxOf(block_.data(), count);
    if (largest > max_level) return BeyondMaximum(largest, max_level);
    for (int64_t i = 0; i < count; ++i) levels[i] = static_cast<uint8_t>(block_[i]);
    levels += count;
    n -= count;
  }
  return Status::OK();
}

Status LevelStream::DecodeLegacy(int64_t n, uint8_t* levels) {
  legacy_block_.resize(kBlockLevels);
  while (n > 0) {
    const int64_t count = std::min(n, kBlockLevels);
    const int got = legacy_levels_.Decode(static_cast<int>(count), legacy_block_.data());
    if (got != count) {
      return MakeError(ErrorKind::kCorruptFile, "Expected " + std::to_string(count) +
                                                    " more levels, got " +
                                                    std::to_string(got));
    }
    for (int64_t i = 0; i < count; ++i) {
      const int16_t level = legacy_block_[i];
      if (level < 0 || level > max_level_) return BeyondMaximum(level, max_level_);
      levels[i] = static_cast<uint8_t>(level);
    }
    levels += count;
    n -= count;
  }
  return Status::OK();
}

Result<int64_t> SetPageLevels(const parquet::DataPage& page, LevelStream* repetition,
                              LevelStream* definition) {
  if (page.type() == parquet::PageType::DATA_PAGE_V2) {
    const auto& v2 = static_cast<const parquet::DataPageV2&>(page);
    const int64_t first = v2.repetition_levels_byte_length();
    const int64_t second = v2.definition_levels_byte_length();
    if (first < 0 || second < 0 || first + second > page.size()) {
      return MakeError(ErrorKind::kCorruptFile,
                       "Expected levels of at most " + std::to_string(page.size()) +
                           " bytes, got " + std::to_string(first + second));
    }
    if (repetition != nullptr) {
      ARROW_RETURN_NOT_OK(repetition->SetV2(page.data(), first));
    }
    ARROW_RETURN_NOT_OK(definition->SetV2(page.data() + first, second));
    return first + second;
  }
  const auto& v1 = static_cast<const parquet::DataPageV1&>(page);
  int64_t first = 0;
  if (repetition != nullptr) {
    ARROW_ASSIGN_OR_RAISE(
        first, repetition->SetV1(v1.repetition_level_encoding(), page.num_values(),
                                 page.data(), page.size()));
  }
  if (first > page.size()) {
    return MakeError(ErrorKind::kCorruptFile, "Expected levels of at most " +
                                                  std::to_string(page.size()) +
                                                  " bytes, got " + std::to_string(first));
  }
  ARROW_ASSIGN_OR_RAISE(
      const int64_t second,
      definition->SetV1(v1.definition_level_encoding(), page.num_values(),
                        page.data() + first, page.size() - first));
  if (second > page.size() - first) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected levels of at most " + std::to_string(page.size()) +
                         " bytes, got " + std::to_string(first + second));
  }
  return first + second;
}

}  // namespace fastload
