#include "fastload/decode/lists/list_assembler.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace fastload {

namespace {

// Returns a word of eight bytes of one value.
uint64_t Repeat(int byte) { return 0x0101010101010101 * static_cast<uint64_t>(byte); }

uint64_t Load64(const uint8_t* in) {
  uint64_t word;
  std::memcpy(&word, in, sizeof(word));
  return word;
}

Status BadNesting() {
  return MakeError(ErrorKind::kCorruptFile,
                   "Expected an element of a list that has begun, got one of another");
}

}  // namespace

ListAssembler::ListAssembler(ListThresholds thresholds, const ColumnSpec* spec,
                             ListItems* items)
    : thresholds_(std::move(thresholds)),
      spec_(spec),
      items_(items),
      levels_(static_cast<int>(thresholds_.element.size())),
      depth_(spec->depth),
      counts_(static_cast<size_t>(levels_) + 1),
      sizes_(static_cast<size_t>(levels_) + 1) {
  if (levels_ == depth_ + 1) sizes_.back() = spec->list_size;
}

void ListAssembler::Begin(std::vector<std::vector<int64_t>>* offsets,
                          std::vector<uint8_t>* valid) {
  offsets_ = offsets;
  valid_ = valid;
  std::fill(counts_.begin(), counts_.end(), 0);
  for (int level = 1; level <= depth_; ++level) {
    auto& ends = (*offsets_)[static_cast<size_t>(level - 1)];
    counts_[static_cast<size_t>(level)] = ends.back();
    ends.pop_back();  // the next list writes its own start, which equals this end
  }
  reached_ = 0;
  item_open_ = false;
  gaps_.clear();
  pending_ = 0;
}

Status ListAssembler::Finish() {
  if (item_open_) ARROW_RETURN_NOT_OK(CloseItem());
  for (int level = 1; level <= depth_; ++level) {
    (*offsets_)[static_cast<size_t>(level - 1)].push_back(
        counts_[static_cast<size_t>(level)]);
  }
  return Status::OK();
}

Status ListAssembler::Add(const LevelSpan& span) {
  span_ = &span;
  flushed_ = 0;
  if (!span.all_present()) return AddBytes(span);
  // A span without level bytes has one level of lists.
  if (levels_ > 1 || (!span.begins_row() && reached_ == 0)) return BadNesting();
  ARROW_RETURN_NOT_OK(span.row_length > 0 ? AddRows(span) : AddStarts(span));
  reached_ = 1;
  if (valid_ != nullptr) {
    valid_->insert(valid_->end(), static_cast<size_t>(span.starts), 1);
  }
  return items_->Append(span.levels);
}

Status ListAssembler::AddRows(const LevelSpan& span) {
  // Only rows of spec.list_size elements come as rows of equal length.
  if (item_open_) ARROW_RETURN_NOT_OK(CloseItem());
  item_open_ = true;
  counts_[1] = span.row_length;
  return Status::OK();
}

Status ListAssembler::AddStarts(const LevelSpan& span) {
  int64_t& count = counts_[1];
  if (depth_ == 1) {
    auto& ends = offsets_->front();
    const size_t before = ends.size();
    ends.resize(before + static_cast<size_t>(span.starts));
    std::transform(span.start_levels, span.start_levels + span.starts,
                   ends.begin() + static_cast<int64_t>(before),
                   [shift = count - span.first](int64_t level) { return level + shift; });
    count += span.levels;
    return Status::OK();
  }
  int64_t begin = item_open_ ? -count : 0;
  for (int64_t i = 0; i < span.starts; ++i) {
    const int64_t level = span.start_levels[i] - span.first;
    if (item_open_) ARROW_RETURN_NOT_OK(CheckLength(level - begin, spec_->list_size));
    item_open_ = true;
    begin = level;
  }
  count = span.levels - begin;
  return Status::OK();
}

bool ListAssembler::AddFlat(const LevelSpan& span) {
  const int element = thresholds_.element.front();
  const int present = thresholds_.max_definition;
  std::array<int64_t, LevelStream::kBlockLevels> starts;
  std::array<uint8_t, LevelStream::kBlockLevels> known;  // 1 = the list is not null
  size_t lists = 0;
  size_t items = 0;
  unsigned inside = reached_ == 1 ? 1 : 0;
  unsigned wrong = 0;
  unsigned nulls = 0;
  for (int64_t i = 0; i < span.levels; ++i) {
    const int repetition = span.repetition[i];
    const int definition = span.definition[i];
    const unsigned begins = repetition == 0 ? 1 : 0;
    const unsigned has_item = definition >= element ? 1 : 0;
    const unsigned is_known = definition >= element - 1 ? 1 : 0;
    starts[lists] = counts_[1] + static_cast<int64_t>(items);
    known[lists] = static_cast<uint8_t>(is_known);
    present_[items] = definition == present ? 1 : 0;
    lists += begins;
    items += has_item;
    wrong |= (begins ^ 1) & ((has_item & inside) ^ 1);
    wrong |= repetition > 1 ? 1 : 0;
    nulls |= is_known ^ 1;
    inside = has_item;
  }
  if (wrong != 0 || (nulls != 0 && !spec_->null_lists)) return false;
  auto& ends = offsets_->front();
  ends.insert(ends.end(), starts.data(), starts.data() + lists);
  if (valid_ != nullptr)
    valid_->insert(valid_->end(), known.data(), known.data() + lists);
  pending_ = static_cast<int64_t>(items);
  counts_[1] += pending_;
  reached_ = static_cast<int>(inside);
  return true;
}

Status ListAssembler::AddBytes(const LevelSpan& span) {
  if (levels_ == 1 && depth_ == 1 && AddFlat(span)) return Flush();
  const int64_t n = span.levels;
  const uint8_t* repetition = span.repetition;
  const uint8_t* definition = span.definition;
  const int element = thresholds_.element.back();
  const int present = thresholds_.max_definition;
  const uint64_t innermost = Repeat(levels_);
  const uint64_t all_present = Repeat(present);
  int64_t& count = counts_.back();
  for (int64_t i = 0; i < n;) {
    if (reached_ == levels_) {
      if (i + 8 <= n && Load64(repetition + i) == innermost &&
          Load64(definition + i) == all_present) {
        std::memset(present_.data() + pending_, 1, 8);
        pending_ += 8;
        count += 8;
        i += 8;
        continue;
      }
      if (repetition[i] == levels_ && definition[i] >= element) {
        present_[static_cast<size_t>(pending_++)] = definition[i] == present ? 1 : 0;
        ++count;
        ++i;
        continue;
      }
    }
    if (repetition[i] > thresholds_.most_repetition) {
      ++i;
      continue;
    }
    at_ = i;
    ARROW_RETURN_NOT_OK(Enter(repetition[i], definition[i]));
    ++i;
  }
  return Flush();
}

Status ListAssembler::Enter(int repetition, int definition) {
  if (repetition > reached_) return BadNesting();
  if (item_open_) {
    ARROW_RETURN_NOT_OK(repetition <= depth_ ? CloseItem() : CloseLists(repetition));
  }
  const auto element = [&](int level) {
    return thresholds_.element[static_cast<size_t>(level - 1)];
  };
  if (repetition == 0) {
    // A list is null where the definition level does not reach the list's own level, or
    // the level of a struct around the list.
    if (valid_ != nullptr) valid_->push_back(definition >= element(1) - 1 ? 1 : 0);
  } else {
    if (definition < element(repetition)) return BadNesting();
    ++counts_[static_cast<size_t>(repetition)];
    reached_ = repetition;
  }
  for (int level = repetition + 1; level <= levels_; ++level) {
    int64_t& count = counts_[static_cast<size_t>(level)];
    if (level <= depth_) {
      (*offsets_)[static_cast<size_t>(level - 1)].push_back(count);
    } else if (level == depth_ + 1) {
      item_start_ = NextElement();
    }
    reached_ = level - 1;
    if (definition < element(level)) return NoElement(level, definition);
    ++count;
    reached_ = level;
    if (level > depth_) item_open_ = true;
  }
  present_[static_cast<size_t>(pending_++)] =
      definition == thresholds_.max_definition ? 1 : 0;
  return Status::OK();
}

Status ListAssembler::NoElement(int level, int definition) {
  const bool null = definition < thresholds_.element[static_cast<size_t>(level - 1)] - 1;
  if (null && !spec_->null_lists) {
    return AtValue(
        MakeError(ErrorKind::kNullValue,
                  "Expected no null list, got one (write fill= or valid=True for "
                  "this column, or nulls=\"zero\" or \"mask\" for all; with Pack, "
                  "fill= or nulls=\"zero\")"),
        at_);
  }
  if (level <= depth_) return Status::OK();
  if (!null) return CheckLength(0, sizes_[static_cast<size_t>(level)]);
  ARROW_RETURN_NOT_OK(Flush());
  if (level == depth_ + 1) {
    const Status status = items_->InsertNulls(items_->size(), spec_->list_size);
    const auto kind = KindOf(status);
    const bool of_list = kind == ErrorKind::kNullValue || kind == ErrorKind::kValue;
    return of_list ? AtValue(status, at_) : status;
  }
  if (!gaps_.empty() && gaps_.back().at == items_->size() &&
      gaps_.back().level == level) {
    ++gaps_.back().lists;
  } else {
    gaps_.push_back({items_->size(), level, 1});
  }
  return Status::OK();
}

Status ListAssembler::Flush() {
  if (pending_ == 0) return Status::OK();
  int64_t non_null = 0;
  for (int64_t i = 0; i < pending_; ++i) non_null += present_[static_cast<size_t>(i)];
  const Status status = items_->AppendMixed(present_.data(), pending_, non_null);
  if (!status.ok()) return AtElement(status);
  flushed_ += pending_;
  pending_ = 0;
  return Status::OK();
}

Status ListAssembler::AtElement(const Status& status) const {
  const bool null = KindOf(status) == ErrorKind::kNullValue;
  const auto value = ValueOf(status);
  if (!null && !value.has_value()) return status;
  // Find the first null among the pending elements, or the element of value number
  // *value.
  int64_t element = 0;
  for (int64_t before = null ? 0 : *value;; ++element) {
    const bool present = present_[static_cast<size_t>(element)] != 0;
    if (present != null && before-- == 0) break;
  }
  // Find the level of that element among the span's levels.
  element += flushed_;
  int64_t level = 0;
  for (;; ++level) {
    const bool is_element = span_->definition[level] >= thresholds_.element.back() &&
                            span_->repetition[level] <= thresholds_.most_repetition;
    if (is_element && element-- == 0) break;
  }
  return AtValue(status, level);
}

Status ListAssembler::CheckLength(int64_t length, int64_t expected) const {
  if (length == expected) return Status::OK();
  return MakeError(ErrorKind::kCorruptFile,
                   "Expected lists of " + std::to_string(expected) +
                       " elements, got one of " + std::to_string(length));
}

Status ListAssembler::CloseLists(int level) {
  for (int inner = levels_; inner > level; --inner) {
    int64_t& count = counts_[static_cast<size_t>(inner)];
    int64_t& size = sizes_[static_cast<size_t>(inner)];
    if (count == 0) continue;
    if (size == 0) size = count;
    if (count != size) return CheckLength(count, size);
    count = 0;
  }
  return Status::OK();
}

Status ListAssembler::CloseItem() {
  ARROW_RETURN_NOT_OK(CloseLists(depth_));
  item_open_ = false;
  if (levels_ == depth_ + 1) return Status::OK();
  if (!gaps_.empty()) ARROW_RETURN_NOT_OK(FillGaps());
  return CheckLength(NextElement() - item_start_, spec_->list_size);
}

Status ListAssembler::FillGaps() {
  ARROW_RETURN_NOT_OK(Flush());
  int64_t inserted = 0;
  for (const Gap& gap : gaps_) {
    int64_t elements = spec_->list_size;
    for (int level = depth_ + 1; level < gap.level; ++level) {
      elements /= sizes_[static_cast<size_t>(level)];
    }
    // The item's length is checked before memory is allocated for its null lists.
    const int64_t room = item_start_ + spec_->list_size - items_->size();
    if (elements > 0 && gap.lists > room / elements) {
      return MakeError(ErrorKind::kCorruptFile, "Expected lists of " +
                                                    std::to_string(spec_->list_size) +
                                                    " elements, got one of more");
    }
    elements *= gap.lists;
    ARROW_RETURN_NOT_OK(items_->InsertNulls(gap.at + inserted, elements));
    inserted += elements;
  }
  gaps_.clear();
  return Status::OK();
}

}  // namespace fastload
