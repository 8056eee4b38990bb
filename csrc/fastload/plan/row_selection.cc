#include "fastload/plan/row_selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "fastload/base/clones.h"

namespace fastload {
namespace {

static_assert(std::endian::native == std::endian::little);

// Skipping a gap and reading the run behind the gap takes about as long as decoding this
// many rows (64 to 256 measured, over a file of plain and dictionary columns).
constexpr int64_t kRunRows = 128;

// Returns the index of the n-th set bit (from 0); more than n bits must be set.
int64_t IndexOfBit(uint64_t word, int64_t n) {
  for (; n > 0; --n) word &= word - 1;
  return std::countr_zero(word);
}

int64_t WordsOf(int64_t rows) { return (rows + 63) / 64; }

}  // namespace

bool AnyStays(RowBits bits, int64_t start, int64_t rows) {
  if (bits.all()) return rows > 0;
  const int64_t stop = start + rows;
  if (bits.numbers != nullptr) {
    const int64_t* const end = bits.numbers + bits.count;
    const int64_t* const first = std::lower_bound(bits.numbers, end, start);
    return first != end && *first < stop;
  }
  for (int64_t at = start; at < stop; at = (at / 64 + 1) * 64) {
    uint64_t word = 0;
    std::memcpy(&word, bits.bits + at / 64 * 8, sizeof(word));
    word >>= at % 64;
    const int64_t left = stop - at;
    if (left < 64) word &= (uint64_t{1} << left) - 1;
    if (word != 0) return true;
  }
  return false;
}

int64_t CountSelected(RowBits bits) {
  if (bits.all()) return bits.rows;
  if (bits.numbers != nullptr) return bits.count;
  int64_t count = 0;
  for (int64_t i = 0; i < WordsOf(bits.rows); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bits.bits + 8 * i, sizeof(word));
    count += std::popcount(word);
  }
  return count;
}

Status FileSelection::Check(const std::vector<int64_t>& rows) const {
  if (offsets.empty()) return Status::OK();
  if (offsets.size() != rows.size()) {
    return Status::Invalid("Expected the selection of ", rows.size(), " row groups, got ",
                           offsets.size());
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < 0) continue;
    if (offsets[i] > bytes || WordsOf(rows[i]) > (bytes - offsets[i]) / 8) {
      return Status::Invalid("Expected ", WordsOf(rows[i]) * 8, " bytes of row group ", i,
                             "'s selection, got ", bytes - offsets[i]);
    }
  }
  return Status::OK();
}

RowBits FileSelection::Of(int32_t row_group, int64_t rows) const {
  if (offsets.empty()) return {nullptr, rows};
  const int64_t offset = offsets[static_cast<size_t>(row_group)];
  return {offset < 0 ? nullptr : bits + offset, rows};
}

uint64_t SelectedRows::Word(int64_t i) const {
  if (i >= words()) return 0;
  uint64_t word = 0;
  std::memcpy(&word, bits_.bits + 8 * i, sizeof(word));
  return word;
}

uint64_t SelectedRows::WordAt(int64_t at) const {
  const int64_t shift = at % 64;
  const uint64_t low = Word(at / 64) >> shift;
  return shift == 0 ? low : low | Word(at / 64 + 1) << (64 - shift);
}

FASTLOAD_CLONES
void SelectedRows::WordsAt(int64_t at, int64_t count, uint64_t* out) const {
  const int64_t shift = at % 64;
  const uint8_t* const from = bits_.bits + at / 64 * 8;
  // The word behind the last bits can't be read.
  const int64_t inside = std::clamp<int64_t>(words() - at / 64 - 1, 0, count);
  for (int64_t i = 0; i < inside; ++i) {
    uint64_t low = 0;
    uint64_t high = 0;
    std::memcpy(&low, from + 8 * i, sizeof(low));
    std::memcpy(&high, from + 8 * i + 8, sizeof(high));
    out[i] = low >> shift | high << 1 << (63 - shift);
  }
  for (int64_t i = inside; i < count; ++i) out[i] = WordAt(at + 64 * i);
}

int64_t SelectedRows::NextNumber() {
  // Return() may have gone back.
  while (number_ > 0 && bits_.numbers[number_ - 1] >= row_) --number_;
  while (number_ < bits_.count && bits_.numbers[number_] < row_) ++number_;
  return number_;
}

SelectedRows::Span SelectedRows::NextOfNumbers(int64_t most, bool blocks) {
  const int64_t* const first = bits_.numbers + NextNumber();
  const int64_t left = std::min(most, bits_.count - number_);
  if (left == 0) return {.start = row_};
  // Goes on from run to run as long as a gap costs less to decode than to skip.
  const int64_t most_gap = blocks ? kRunRows : 1;
  int64_t selected = 1;
  while (selected < left && first[selected] - first[selected - 1] <= most_gap &&
         (!blocks || first[selected] - first[0] < kBlockRows)) {
    ++selected;
  }
  const Span span{first[0], first[selected - 1] + 1 - first[0], selected};
  row_ = span.start + span.rows;
  return span;
}

void SelectedRows::Skip(int64_t selected) {
  if (bits_.all()) {
    row_ = std::min(row_ + selected, bits_.rows);
    return;
  }
  if (bits_.numbers != nullptr) {
    if (selected == 0) return;
    const int64_t next = std::min(NextNumber() + selected, bits_.count);
    row_ = next == 0 ? 0 : bits_.numbers[next - 1] + 1;
    return;
  }
  while (selected > 0 && row_ < bits_.rows) {
    const uint64_t word = Word(row_ / 64) >> row_ % 64;
    const int64_t count = std::popcount(word);
    if (count > selected) {
      row_ += IndexOfBit(word, selected - 1) + 1;
      return;
    }
    selected -= count;
    row_ = (row_ / 64 + 1) * 64;
  }
  row_ = std::min(row_, bits_.rows);
}

int64_t SelectedRows::row() {
  if (bits_.all()) return row_;
  if (bits_.numbers != nullptr) {
    const int64_t next = NextNumber();
    return row_ = next < bits_.count ? bits_.numbers[next] : bits_.rows;
  }
  while (row_ < bits_.rows) {
    const uint64_t word = Word(row_ / 64) >> row_ % 64;
    if (word != 0) return row_ += std::countr_zero(word);
    row_ = (row_ / 64 + 1) * 64;
  }
  return row_ = bits_.rows;
}

int64_t SelectedRows::RunLength(int64_t most) const {
  int64_t length = 0;
  while (length < most) {
    const int64_t ones = std::countr_one(WordAt(row_ + length));
    length += ones;
    if (ones < 64) break;
  }
  return std::min(length, most);
}

FASTLOAD_CLONES
SelectedRows::Span SelectedRows::Block(int64_t most, bool* worth) const {
  Span span{.start = row_};
  int64_t runs = 0;
  uint64_t carry = 0;  // 1 if the previous row is in a run
  std::array<uint64_t, kMarkWords> block;
  WordsAt(row_, kMarkWords, block.data());
  for (int64_t at = 0; at < kBlockRows && span.selected < most; at += 64) {
    uint64_t word = block[static_cast<size_t>(at / 64)];
    if (word == 0) {
      carry = 0;
      continue;
    }
    int64_t count = std::popcount(word);
    if (count > most - span.selected) {
      const int64_t last = IndexOfBit(word, most - span.selected - 1);
      word &= ~uint64_t{0} >> (63 - last);
      count = most - span.selected;
    }
    runs += std::popcount(word & ~(word << 1 | carry));
    carry = word >> 63;
    span.selected += count;
    span.rows = at + 64 - std::countl_zero(word);
  }
  *worth = runs > 1 && runs * kRunRows >= span.rows;
  return span;
}

SelectedRows::Span SelectedRows::Next(int64_t most, bool blocks) {
  if (row() == bits_.rows) return {.start = row_};
  if (bits_.numbers != nullptr) return NextOfNumbers(most, blocks);
  if (bits_.bits == nullptr) {
    const Span rest{row_, std::min(most, bits_.rows - row_),
                    std::min(most, bits_.rows - row_)};
    row_ += rest.rows;
    return rest;
  }
  const int64_t run = RunLength(most);
  Span span{row_, run, run};
  if (blocks && run < most && run < kRunRows && row_ >= sparse_until_) {
    bool worth = false;
    const Span block = Block(most, &worth);
    if (worth) {
      span = block;
    } else {
      sparse_until_ = row_ + block.rows;
    }
  }
  row_ += span.rows;
  return span;
}

SelectedRows::Span SelectedRows::Before(const Span& span, int64_t row) const {
  Span before{.start = span.start};
  const int64_t rows = row - span.start;
  if (bits_.numbers != nullptr) {
    const int64_t* const end = bits_.numbers + bits_.count;
    const int64_t* const first = std::lower_bound(bits_.numbers, end, span.start);
    const int64_t* const stop = std::lower_bound(first, end, row);
    before.selected = stop - first;
    if (stop != first) before.rows = stop[-1] + 1 - span.start;
    return before;
  }
  for (int64_t at = 0; at < rows; at += 64) {
    uint64_t word = WordAt(span.start + at);
    if (rows - at < 64) word &= (uint64_t{1} << (rows - at)) - 1;
    if (word == 0) continue;
    before.selected += std::popcount(word);
    before.rows = at + 64 - std::countl_zero(word);
  }
  return before;
}

void SelectedRows::Marks(const Span& span, uint64_t* marks) const {
  const int64_t words = WordsOf(span.rows);
  if (bits_.numbers != nullptr) {
    std::fill_n(marks, words, 0);
    const int64_t* const end = bits_.numbers + bits_.count;
    const int64_t* const first = std::lower_bound(bits_.numbers, end, span.start);
    for (int64_t i = 0; i < span.selected; ++i) {
      const int64_t row = first[i] - span.start;
      marks[row / 64] |= uint64_t{1} << row % 64;
    }
    return;
  }
  WordsAt(span.start, words, marks);
  const int64_t last = span.rows % 64;
  if (last > 0) marks[words - 1] &= (uint64_t{1} << last) - 1;
}

}  // namespace fastload
