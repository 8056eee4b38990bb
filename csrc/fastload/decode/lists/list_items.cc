#include "fastload/decode/lists/list_items.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "fastload/base/strided.h"

namespace fastload {

Status NullElement() {
  return MakeError(
      ErrorKind::kNullValue,
      "Expected no null, got one (write fill= or valid=True for this "
      "column, or nulls=\"nan\" (for floats), \"zero\" or \"mask\" for all; with Pack, "
      "fill= or nulls=\"zero\")");
}

Status FixedItems::Append(int64_t n) {
  ARROW_ASSIGN_OR_RAISE(uint8_t* const out, Extend(n));
  return values_->Decode(n, out);
}

Status FixedItems::AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) {
  if (non_null == n) return Append(n);
  if (non_null == 0) return FixedItems::InsertNulls(size(), n);
  if (!spec_->fill.has_value()) return NullElement();
  ARROW_ASSIGN_OR_RAISE(uint8_t* out, Extend(n));
  const int stride = item_size();
  int64_t done = 0;
  while (n > 0) {
    const int64_t count = std::min(n, kBlock);
    int64_t values = 0;
    for (int64_t i = 0; i < count; ++i) values += valid[i];
    auto* const block = reinterpret_cast<uint8_t*>(block_.data());
    if (values > 0) {
      const Status status = values_->Decode(values, block);
      if (!status.ok()) {
        const auto value = ValueOf(status);
        return value.has_value() ? AtValue(status, done + *value) : status;
      }
    }
    done += values;
    WithItem(stride, [&]<typename T>(T fill) {
      std::memcpy(&fill, spec_->fill->data(), sizeof(T));
      Spread(reinterpret_cast<const T*>(block), valid, count, fill, {out, stride});
    });
    out += count * stride;
    valid += count;
    n -= count;
  }
  return Status::OK();
}

Status FixedItems::InsertNulls(int64_t at, int64_t n) {
  if (!spec_->fill.has_value()) return NullElement();
  const int stride = item_size();
  const int64_t moved = (size() - at) * stride;
  ARROW_ASSIGN_OR_RAISE(uint8_t* const end, Extend(n));
  uint8_t* const gap = end - moved;
  if (moved > 0) std::memmove(gap + n * stride, gap, static_cast<size_t>(moved));
  WithItem(stride, [&]<typename T>(T fill) {
    std::memcpy(&fill, spec_->fill->data(), sizeof(T));
    Fill(fill, n, {gap, stride});
  });
  return Status::OK();
}

void MemoryItems::SetOutput(uint8_t* out, int64_t capacity) {
  out_ = out;
  size_ = 0;
  capacity_ = capacity;
}

Result<uint8_t*> MemoryItems::Extend(int64_t n) {
  if (n > capacity_ - size_) {
    return MakeError(
        ErrorKind::kCorruptFile,
        "Expected rows of " + std::to_string(capacity_) + " elements in all, got more");
  }
  uint8_t* const out = out_ + size_ * item_size();
  size_ += n;
  return out;
}

FixedNestedItems::FixedNestedItems(FixedValues* values, const ColumnSpec* spec)
    : FixedItems(values, spec),
      // Nulls may be inserted before existing elements if items have several elements, so
      // such items do not wait as codes.
      codes_(spec->list_size == 0 && item_size() >= 2 * static_cast<int>(sizeof(Code))) {}

Status FixedNestedItems::SetOutput(NestedRows* out, int64_t expected) {
  out_ = out;
  out_->values.Expect(expected * item_size());
  return Status::OK();
}

Result<uint8_t*> FixedNestedItems::Extend(int64_t n) {
  return out_->values.Extend(n * item_size());
}

bool FixedNestedItems::WaitInPage(int64_t n) const {
  // Behind a gap, fewer values take less time as codes than as a run of their own.
  constexpr int64_t kLeastInPage = 4096;
  if (!out_->in_pages || values()->kept_page() == nullptr || !values()->packed()) {
    return false;
  }
  return values()->at_first_code() || n >= kLeastInPage ||
         out_->values.EndsAt(values()->position());
}

bool FixedNestedItems::Narrow() {
  if (narrow_of_ == values()->shared_dictionary()) return !narrow_.empty();
  narrow_of_ = values()->shared_dictionary();
  narrow_.clear();
  WithItem(item_size(), [&]<typename T>(T most) {
    const auto* const entries = reinterpret_cast<const T*>(narrow_of_->data());
    const auto count = narrow_of_->size() / static_cast<int64_t>(sizeof(T));
    most = std::accumulate(entries, entries + count, T{0}, std::bit_or<T>());
    if (most <= std::numeric_limits<Code>::max())
      narrow_.assign(entries, entries + count);
  });
  return !narrow_.empty();
}

Status FixedNestedItems::Append(int64_t n) {
  if (!codes_ || out_->as_they_are || !values()->coded()) return FixedItems::Append(n);
  if (WaitInPage(n)) {
    const HybridDecoder::Position begin = values()->position();
    ARROW_RETURN_NOT_OK(values()->Skip(n));
    out_->values.AppendEncoded(n, item_size(),
                               {.page = values()->kept_page(),
                                .number = values()->page_number(),
                                .begin = begin,
                                .end = values()->position(),
                                .dictionary = values()->shared_dictionary()});
    return Status::OK();
  }
  if (Narrow()) {
    ARROW_ASSIGN_OR_RAISE(Code* const codes,
                          out_->values.ExtendCodes(n, item_size(), nullptr));
    return values()->LookUpIn(narrow_.data(), n, codes);
  }
  const auto& dictionary = values()->shared_dictionary();
  if (!out_->in_order || dictionary->size() > ElementRuns::kMostEntries * item_size()) {
    return FixedItems::Append(n);
  }
  ARROW_ASSIGN_OR_RAISE(Code* const codes,
                        out_->values.ExtendCodes(n, item_size(), dictionary));
  return values()->DecodeCodes(n, 0, sizeof(Code), reinterpret_cast<uint8_t*>(codes));
}

Status FixedNestedItems::AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) {
  // Mixed elements stay plain, because each null in codes would need a run of its own.
  codes_ = codes_ && non_null == n;
  return FixedItems::AppendMixed(valid, n, non_null);
}

Status FixedNestedItems::InsertNulls(int64_t at, int64_t n) {
  ARROW_RETURN_NOT_OK(out_->fills.Take(n, item_size()));
  return FixedItems::InsertNulls(at, n);
}

Status ByteNestedItems::SetOutput(NestedRows* out, int64_t expected) {
  out_ = out;
  const auto needed = out->views.size() + static_cast<size_t>(expected);
  if (needed > out->views.capacity()) {
    out->views.reserve(std::max(needed, 2 * out->views.capacity()));
  }
  return Status::OK();
}

Result<ByteView> ByteNestedItems::Fill() const {
  if (!spec_->fill.has_value()) return NullElement();
  return ByteView{reinterpret_cast<const uint8_t*>(spec_->fill->data()),
                  static_cast<int64_t>(spec_->fill->size())};
}

ByteView* ByteNestedItems::Extend(int64_t n) {
  const size_t before = out_->views.size();
  out_->views.resize(before + static_cast<size_t>(n));
  return out_->views.data() + before;
}

Status ByteNestedItems::Append(int64_t n) {
  return values_->Decode(n, Extend(n), &out_->bytes);
}

Status ByteNestedItems::AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) {
  if (non_null == n) return Append(n);
  ARROW_ASSIGN_OR_RAISE(const ByteView fill, Fill());
  ByteView* const views = Extend(n);
  if (non_null > 0) {
    ARROW_RETURN_NOT_OK(values_->Decode(non_null, views, &out_->bytes));
  }
  // The loop runs from the back, so that a value never overwrites a value that has still
  // to move.
  int64_t next = non_null;
  for (int64_t i = n - 1; i >= 0; --i) views[i] = valid[i] != 0 ? views[--next] : fill;
  return Status::OK();
}

Status ByteNestedItems::InsertNulls(int64_t at, int64_t n) {
  ARROW_ASSIGN_OR_RAISE(const ByteView fill, Fill());
  out_->views.insert(out_->views.begin() + at, static_cast<size_t>(n), fill);
  return Status::OK();
}

}  // namespace fastload
