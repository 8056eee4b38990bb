#include "fastload/decode/values/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "fastload/base/hash.h"

namespace fastload {

namespace {

Status Twice(int64_t first, size_t second) {
  return Status::Invalid("Expected each entry of the vocabulary once, got entry ", first,
                         " again as entry ", second);
}

}  // namespace

Vocabulary::Slots::Slots(size_t entries)
    : slots_(std::bit_ceil(std::max<size_t>(2, 2 * entries))),
      shift_(64 - std::countr_zero(slots_.size())) {}

size_t Vocabulary::Slots::First(uint64_t key) const {
  // Multiplying by 2^64 over the golden ratio spreads neighbouring integers far apart.
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  return static_cast<size_t>(((key ^ key >> 32) * kGolden) >> shift_);
}

template <typename Same>
int64_t Vocabulary::Slots::Find(uint64_t key, const Same& same) const {
  for (size_t at = First(key);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.index < 0) return -1;
    if (slot.key == key && same(slot.index)) return slot.index;
  }
}

void Vocabulary::Slots::Add(uint64_t key, int64_t index) {
  size_t at = First(key);
  while (slots_[at].index >= 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, index};
}

Vocabulary::Vocabulary(bool of_bytes, size_t entries, size_t above_int64)
    : of_bytes_(of_bytes),
      size_(static_cast<int64_t>(entries)),
      slots_(entries - above_int64),
      above_int64_(above_int64) {}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::OfBytes(
    std::vector<std::string> entries) {
  std::shared_ptr<Vocabulary> made(new Vocabulary(true, entries.size(), 0));
  made->bytes_ = std::move(entries);
  for (size_t i = 0; i < made->bytes_.size(); ++i) {
    const std::string& entry = made->bytes_[i];
    const auto* data = reinterpret_cast<const uint8_t*>(entry.data());
    const uint64_t hash = Hash64(data, entry.size(), /*seed=*/0);
    const int64_t before = made->FindBytes(hash, data, entry.size());
    if (before >= 0) return Twice(before, i);
    made->slots_.Add(hash, static_cast<int64_t>(i));
  }
  return made;
}

Result<std::shared_ptr<const Vocabulary>> Vocabulary::OfIntegers(
    const std::vector<Integer>& entries) {
  const auto above = std::count_if(entries.begin(), entries.end(),
                                   [](Integer entry) { return entry.above_int64; });
  std::shared_ptr<Vocabulary> made(
      new Vocabulary(false, entries.size(), static_cast<size_t>(above)));
  for (size_t i = 0; i < entries.size(); ++i) {
    const Integer entry = entries[i];
    const int64_t before = made->Find(entry, -1);
    if (before >= 0) return Twice(before, i);
    Slots& slots = entry.above_int64 ? made->above_int64_ : made->slots_;
    slots.Add(entry.bits, static_cast<int64_t>(i));
  }
  return made;
}

int64_t Vocabulary::FindBytes(uint64_t hash, const uint8_t* data, size_t size) const {
  return slots_.Find(hash, [&](int64_t index) {
    const std::string& entry = bytes_[static_cast<size_t>(index)];
    return entry.size() == size &&
           (size == 0 || std::memcmp(entry.data(), data, size) == 0);
  });
}

int64_t Vocabulary::Find(const uint8_t* data, size_t size, int64_t unknown) const {
  const int64_t index = FindBytes(Hash64(data, size, /*seed=*/0), data, size);
  return index < 0 ? unknown : index;
}

int64_t Vocabulary::Find(Integer integer, int64_t unknown) const {
  const Slots& slots = integer.above_int64 ? above_int64_ : slots_;
  const int64_t index = slots.Find(integer.bits, [](int64_t) { return true; });
  return index < 0 ? unknown : index;
}

}  // namespace fastload
