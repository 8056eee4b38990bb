#include "fastload/decode/pages/definition_levels.h"

#include <algorithm>

namespace fastload {

namespace {

// A shorter run of equal levels is not worth a span of its own.
constexpr int64_t kShortRun = 64;

}  // namespace

Result<int64_t> DefinitionLevels::SetPage(const parquet::DataPage& page) {
  return SetPageLevels(page, nullptr, &levels_);
}

Result<DefinitionLevels::Span> DefinitionLevels::Next(int64_t max_rows) {
  if (max_level_ == 0) return Span{max_rows, present_level_ == 0 ? max_rows : 0, nullptr};
  ARROW_ASSIGN_OR_RAISE(const HybridDecoder::Run run, levels_.Peek());
  if (run.repeated && run.length >= std::min(max_rows, kShortRun)) {
    const int64_t rows = std::min(max_rows, run.length);
    ARROW_RETURN_NOT_OK(levels_.Skip(rows));
    const bool present = static_cast<int64_t>(run.value) == present_level_;
    return Span{rows, present ? rows : 0, nullptr};
  }
  valid_.resize(kBlockRows);
  const int64_t rows = std::min(max_rows, kBlockRows);
  ARROW_RETURN_NOT_OK(levels_.Decode(rows, valid_.data()));
  if (present_level_ > 1) {
    for (int64_t i = 0; i < rows; ++i) valid_[i] = valid_[i] == present_level_;
  }
  int64_t non_null = 0;
  for (int64_t i = 0; i < rows; ++i) non_null += valid_[i];
  const bool mixed = non_null != 0 && non_null != rows;
  return Span{rows, non_null, mixed ? valid_.data() : nullptr};
}

Result<bool> DefinitionLevels::NoneNull(int64_t rows) {
  if (max_level_ == 0) return present_level_ == 0;
  ARROW_ASSIGN_OR_RAISE(const HybridDecoder::Run run, levels_.Peek());
  return run.repeated && static_cast<int64_t>(run.value) == present_level_ &&
         run.length >= rows;
}

}  // namespace fastload
