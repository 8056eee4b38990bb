#include "fastload/decode/lists/element_runs.h"

#include <algorithm>
#include <utility>

#include "fastload/base/memory.h"
#include "fastload/base/prefetch.h"
#include "fastload/base/stream_copy.h"

namespace fastload {

Result<uint8_t*> ElementRuns::Take(int64_t bytes, int64_t item,
                                   const std::shared_ptr<arrow::Buffer>& dictionary) {
  const bool goes_on = !runs_.empty() && runs_.back().page == nullptr &&
                       runs_.back().item == item && runs_.back().dictionary == dictionary;
  // Align the memory, because elements behind codes would begin at any even address.
  const int64_t gap =
      goes_on ? 0 : RoundUp(memory_.length(), kAlignment) - memory_.length();
  if (gap + bytes > memory_.capacity() - memory_.length()) {
    // The elements still expected are likely to come in the same kind of run.
    int64_t more = expected_ - size_;
    if (item != 0) more = more / item * static_cast<int64_t>(sizeof(Code));
    ARROW_RETURN_NOT_OK(memory_.Reserve(gap + std::max(bytes, more)));
  }
  memory_.UnsafeAdvance(gap);
  if (!goes_on) {
    runs_.push_back({.begin = size_,
                     .offset = memory_.length(),
                     .page = nullptr,
                     .item = item,
                     .dictionary = dictionary,
                     .encoded = nullptr});
  }
  uint8_t* const out = memory_.mutable_data() + memory_.length();
  memory_.UnsafeAdvance(bytes);
  return out;
}

Result<uint8_t*> ElementRuns::Extend(int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(uint8_t* const out, Take(bytes, 0, nullptr));
  size_ += bytes;
  return out;
}

Result<ElementRuns::Code*> ElementRuns::ExtendCodes(
    int64_t n, int64_t item, const std::shared_ptr<arrow::Buffer>& dictionary) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(Code));
  ARROW_ASSIGN_OR_RAISE(uint8_t* const out, Take(bytes, item, dictionary));
  size_ += n * item;
  return reinterpret_cast<Code*>(out);
}

bool ElementRuns::EndsAt(const HybridDecoder::Position& place) const {
  return !runs_.empty() && runs_.back().encoded != nullptr &&
         runs_.back().encoded->end == place;
}

void ElementRuns::AppendEncoded(int64_t n, int64_t item, Encoded encoded) {
  if (n == 0) return;
  // Rows that are not selected leave gaps between the codes.
  if (EndsAt(encoded.begin) && size_ - runs_.back().begin < kMostEncoded * item) {
    runs_.back().encoded->end = encoded.end;
  } else {
    const uint8_t* const page = encoded.page->data();
    runs_.push_back({.begin = size_,
                     .offset = 0,
                     .page = page,
                     .item = item,
                     .dictionary = encoded.dictionary,
                     .encoded = std::make_unique<Encoded>(std::move(encoded))});
  }
  size_ += n * item;
}

void ElementRuns::Clear() {
  memory_.Rewind(0);
  runs_.clear();
  size_ = 0;
  expected_ = 0;
  found_->damage = {};
}

const ElementRuns::Run* ElementRuns::Find(int64_t begin) const {
  const auto after =
      std::upper_bound(runs_.begin() + 1, runs_.end(), begin,
                       [](int64_t at, const Run& run) { return at < run.begin; });
  return &*std::prev(after);
}

template <typename Fn>
void ElementRuns::ForEachRun(int64_t begin, int64_t bytes, const Fn& fn) const {
  if (bytes <= 0) return;
  const Run* const end = runs_.data() + runs_.size();
  for (const Run* run = Find(begin); bytes > 0; ++run) {
    const int64_t run_end = run + 1 < end ? run[1].begin : size_;
    const int64_t count = std::min(bytes, run_end - begin);
    fn(*run, begin - run->begin, count);
    begin += count;
    bytes -= count;
  }
}

void ElementRuns::CopyRuns(int64_t begin, int64_t bytes, uint8_t* out) const {
  ForEachRun(begin, bytes, [&](const Run& run, int64_t offset, int64_t count) {
    CopyFrom(run, offset, count, out);
    out += count;
  });
}

ElementRuns::Damage ElementRuns::damage() const {
  std::lock_guard lock(found_->mutex);
  return found_->damage;
}

void ElementRuns::Decode(const Run& run, int64_t offset, int64_t bytes,
                         uint8_t* out) const {
  const auto look_up = [&]<typename T>(T* elements) -> Status {
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    const auto* const entries = reinterpret_cast<const T*>(run.dictionary->data());
    HybridDecoder decoder;
    decoder.GoTo(run.encoded->begin);
    ARROW_RETURN_NOT_OK(decoder.Skip(offset / kItem));
    return decoder.Lookup(entries, run.dictionary->size() / kItem, bytes / kItem,
                          elements);
  };
  Status status = run.item == 4 ? look_up(reinterpret_cast<uint32_t*>(out))
                                : look_up(reinterpret_cast<uint64_t*>(out));
  if (status.ok()) return;
  std::lock_guard lock(found_->mutex);
  Damage& damage = found_->damage;
  if (damage.status.ok() || run.begin < damage.at) {
    damage = {.status = std::move(status), .at = run.begin, .page = run.encoded->number};
  }
}

void ElementRuns::LookUp(const Run& run, int64_t offset, int64_t bytes,
                         uint8_t* out) const {
  if (run.encoded != nullptr) return Decode(run, offset, bytes, out);
  const auto look_up = [&]<typename T>(T* elements) {
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    const auto* const entries = reinterpret_cast<const T*>(run.dictionary->data());
    const auto* const codes = reinterpret_cast<const Code*>(Data(run)) + offset / kItem;
    StoreStream(elements, bytes / kItem, [&](int64_t i) { return entries[codes[i]]; });
  };
  if (run.item == 4) {
    look_up(reinterpret_cast<uint32_t*>(out));
  } else {
    look_up(reinterpret_cast<uint64_t*>(out));
  }
}

void ElementRuns::StreamTo(int64_t begin, int64_t bytes, uint8_t* out) const {
  ForEachRun(begin, bytes, [&](const Run& run, int64_t offset, int64_t count) {
    if (run.item == 0) {
      StreamCopy(out, Data(run) + offset, count);
    } else {
      CopyFrom(run, offset, count, out);
    }
    out += count;
  });
}

}  // namespace fastload
