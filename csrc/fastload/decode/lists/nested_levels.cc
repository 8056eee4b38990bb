#include "fastload/decode/lists/nested_levels.h"

#include <algorithm>

namespace fastload {

namespace {

// A shorter run of the largest definition level is not worth a block of its own.
constexpr int64_t kShortRun = 256;

}  // namespace

ListThresholds ThresholdsOf(const parquet::ColumnDescriptor& descr, int64_t levels,
                            int shared) {
  std::vector<const parquet::schema::Node*> path;
  for (const auto* node = descr.schema_node().get(); node->parent() != nullptr;
       node = node->parent()) {
    path.push_back(node);
  }
  ListThresholds thresholds;
  int definition = 0;
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    if ((*node)->is_required()) continue;
    ++definition;
    if ((*node)->is_repeated()) thresholds.element.push_back(definition);
  }
  thresholds.max_definition = PresentLevel(descr);
  if (shared > 0) {
    thresholds.element.resize(static_cast<size_t>(shared));
    thresholds.max_definition = definition + 1;
    thresholds.most_repetition = shared;
  }
  while (static_cast<int64_t>(thresholds.element.size()) < levels) {
    // A level beyond the maximum makes all these lists null.
    thresholds.element.push_back(definition + 2);
  }
  return thresholds;
}

NestedLevels::NestedLevels(const parquet::ColumnDescriptor& descr, int64_t row_length,
                           int present)
    : max_definition_(present),
      row_length_(row_length),
      repetition_(descr.max_repetition_level()),
      definition_(descr.max_definition_level()) {}

Result<int64_t> NestedLevels::SetPage(const parquet::DataPage& page) {
  page_left_ = page.num_values();
  block_left_ = 0;
  return SetPageLevels(page, &repetition_, &definition_);
}

Status NestedLevels::DecodeBlock() {
  block_at_ = 0;
  if (repetition_.is_bits()) {
    ARROW_ASSIGN_OR_RAISE(const HybridDecoder::Run run, definition_.Peek());
    const bool present =
        run.repeated && static_cast<int64_t>(run.value) == max_definition_;
    if (present && run.length >= std::min(page_left_, kShortRun)) {
      return DecodePresent(std::min(page_left_, run.length));
    }
  }
  block_ = Block::kBytes;
  block_left_ = std::min(page_left_, kBytesBlock);
  ARROW_RETURN_NOT_OK(repetition_.Decode(block_left_, repetition_bytes_.data()));
  ARROW_RETURN_NOT_OK(definition_.Decode(block_left_, definition_bytes_.data()));
  page_left_ -= block_left_;
  return Status::OK();
}

Status NestedLevels::DecodePresent(int64_t levels) {
  int64_t rows = 0;
  if (row_length_ > 0) {
    ARROW_ASSIGN_OR_RAISE(rows,
                          repetition_.SkipEqualRows(row_length_, levels / row_length_));
  }
  if (rows > 0) {
    block_ = Block::kRows;
    block_left_ = rows * row_length_;
  } else {
    block_ = Block::kStarts;
    block_left_ = std::min(levels, kStartsBlock);
    if (row_length_ > 0) {
      // Rows of equal length may begin where this run ends: behind the rest of a row that
      // the previous page cut off.
      ARROW_ASSIGN_OR_RAISE(const HybridDecoder::Run run, repetition_.Peek());
      if (run.length > 0) block_left_ = std::min(block_left_, run.length);
    }
    next_start_ = 0;
    ARROW_ASSIGN_OR_RAISE(end_start_,
                          repetition_.FindZeros(block_left_, start_levels_.data()));
  }
  ARROW_RETURN_NOT_OK(definition_.Skip(block_left_));
  page_left_ -= block_left_;
  return Status::OK();
}

Result<LevelSpan> NestedLevels::Next(int64_t max_starts) {
  if (block_left_ == 0) ARROW_RETURN_NOT_OK(DecodeBlock());
  const LevelSpan span = block_ == Block::kRows     ? NextRows(max_starts)
                         : block_ == Block::kStarts ? NextStarts(max_starts)
                                                    : NextBytes(max_starts);
  if (block_ == Block::kStarts) next_start_ += span.starts;
  block_at_ += span.levels;
  block_left_ -= span.levels;
  return span;
}

LevelSpan NestedLevels::NextRows(int64_t max_starts) const {
  LevelSpan span;
  span.row_length = row_length_;
  span.starts = std::min(max_starts, block_left_ / row_length_);
  span.levels = span.starts * row_length_;
  return span;
}

LevelSpan NestedLevels::NextStarts(int64_t max_starts) const {
  LevelSpan span;
  span.start_levels = start_levels_.data() + next_start_;
  span.first = block_at_;
  span.starts = std::min(max_starts, end_start_ - next_start_);
  const bool more = span.starts < end_start_ - next_start_;
  span.levels = more ? span.start_levels[span.starts] - block_at_ : block_left_;
  return span;
}

LevelSpan NestedLevels::NextBytes(int64_t max_starts) const {
  LevelSpan span;
  span.repetition = repetition_bytes_.data() + block_at_;
  span.definition = definition_bytes_.data() + block_at_;
  int64_t starts = 0;
  for (int64_t i = 0; i < block_left_; ++i) starts += span.repetition[i] == 0 ? 1 : 0;
  if (starts <= max_starts) {
    span.levels = block_left_;
    span.starts = starts;
    return span;
  }
  span.starts = max_starts;
  int64_t room = max_starts;
  for (; span.repetition[span.levels] != 0 || room > 0; ++span.levels) {
    if (span.repetition[span.levels] == 0) --room;
  }
  return span;
}

}  // namespace fastload
