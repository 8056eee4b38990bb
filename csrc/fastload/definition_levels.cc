#include "fastload/definition_levels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace fastload {

namespace {

// Below this an equal run is not worth a span of its own.
constexpr int64_t kShortRun = 64;

Status BadLength(int64_t got, int64_t size) {
  return MakeError(ErrorKind::kCorruptFile, "Expected levels of at most " +
                                                std::to_string(size) + " bytes, got " +
                                                std::to_string(got));
}

}  // namespace

Result<int64_t> DefinitionLevels::SetPage(const parquet::DataPage& page) {
  bit_width_ = std::bit_width(static_cast<uint16_t>(max_level_));
  legacy_ = false;
  if (page.type() == parquet::PageType::DATA_PAGE_V2) {
    return SetPageV2(static_cast<const parquet::DataPageV2&>(page));
  }
  return SetPageV1(static_cast<const parquet::DataPageV1&>(page));
}

Result<int64_t> DefinitionLevels::SetPageV1(const parquet::DataPageV1& page) {
  if (max_level_ == 0) return 0;
  const int64_t size = page.size();
  if (page.definition_level_encoding() == parquet::Encoding::BIT_PACKED) {
    legacy_ = true;
    return legacy_levels_.SetData(page.definition_level_encoding(), max_level_,
                                  page.num_values(), page.data(), page.size());
  }
  if (page.definition_level_encoding() != parquet::Encoding::RLE) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected definition levels encoded RLE or BIT_PACKED, got " +
                         parquet::EncodingToString(page.definition_level_encoding()));
  }
  constexpr int64_t kPrefix = 4;
  if (size < kPrefix) return BadLength(kPrefix, size);
  uint32_t length;
  std::memcpy(&length, page.data(), kPrefix);
  if (length > size - kPrefix) return BadLength(length, size - kPrefix);
  runs_.Reset(page.data() + kPrefix, length, bit_width_);
  return kPrefix + length;
}

Result<int64_t> DefinitionLevels::SetPageV2(const parquet::DataPageV2& page) {
  const int64_t repetition = page.repetition_levels_byte_length();
  const int64_t definition = page.definition_levels_byte_length();
  if (repetition < 0 || definition < 0 || repetition + definition > page.size()) {
    return BadLength(repetition + definition, page.size());
  }
  runs_.Reset(page.data() + repetition, definition, bit_width_);
  return repetition + definition;
}

Result<DefinitionLevels::Span> DefinitionLevels::Next(int64_t max_rows) {
  if (max_level_ == 0) return Span{max_rows, max_rows, nullptr};
  if (!legacy_) {
    ARROW_ASSIGN_OR_RAISE(const HybridDecoder::Run run, runs_.Peek());
    if (run.repeated && run.length >= std::min(max_rows, kShortRun)) {
      const int64_t rows = std::min(max_rows, run.length);
      ARROW_RETURN_NOT_OK(runs_.Skip(rows));
      const bool present = static_cast<int64_t>(run.value) == max_level_;
      return Span{rows, present ? rows : 0, nullptr};
    }
  }
  const int64_t rows = std::min(max_rows, kBlockRows);
  ARROW_RETURN_NOT_OK(DecodeBlock(rows));
  int64_t non_null = 0;
  for (int64_t i = 0; i < rows; ++i) non_null += valid_[i];
  const bool mixed = non_null != 0 && non_null != rows;
  return Span{rows, non_null, mixed ? valid_.data() : nullptr};
}

Status DefinitionLevels::DecodeBlock(int64_t rows) {
  valid_.resize(kBlockRows);
  if (legacy_) {
    legacy_block_.resize(kBlockRows);
    const int got = legacy_levels_.Decode(static_cast<int>(rows), legacy_block_.data());
    if (got != rows) {
      return MakeError(ErrorKind::kCorruptFile, "Expected " + std::to_string(rows) +
                                                    " more definition levels, got " +
                                                    std::to_string(got));
    }
    for (int64_t i = 0; i < rows; ++i) valid_[i] = legacy_block_[i] == max_level_;
    return Status::OK();
  }
  if (bit_width_ == 1) return runs_.DecodeBits(rows, valid_.data());
  levels_.resize(kBlockRows);
  ARROW_RETURN_NOT_OK(runs_.Decode(rows, levels_.data()));
  const auto present = static_cast<uint32_t>(max_level_);
  for (int64_t i = 0; i < rows; ++i) valid_[i] = levels_[i] == present;
  return Status::OK();
}

}  // namespace fastload
